from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.wire.channel import (
    HEADER,
    MAX_FRAME_BYTES,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
    channel_pair,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def pair() -> tuple[Channel, Channel]:
    ours, theirs = channel_pair()
    return ours, Channel(theirs)


def read_all(channel: Channel) -> None:
    while True:
        channel.receive(1.0)


def send_much(channel: Channel) -> None:
    for _ in range(100):
        channel.send({"x": "a" * (1 << 20)}, timeout_s=0.1)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_message_arrives_as_it_was_sent(message: dict[str, Any]) -> None:
    a, b = pair()
    a.send(message)
    assert b.receive(1.0) == message
    b.send(message)
    assert a.receive_with_fds() == (message, [])
    a.close()
    b.close()


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_channel_error_and_nothing_else(noise: bytes) -> None:
    ours, theirs = channel_pair()
    theirs.sendall(noise)
    theirs.close()
    with pytest.raises(ChannelError):
        read_all(ours)
    ours.close()


@pytest.mark.parametrize("body", [b"[1]", b"1", b'"text"', b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_frame_must_be_a_json_object(body: bytes) -> None:
    ours, theirs = channel_pair()
    theirs.sendall(HEADER.pack(len(body)) + body)
    with pytest.raises(ChannelError):
        ours.receive(1.0)


def test_a_frame_over_the_limit_is_refused_unread() -> None:
    ours, theirs = channel_pair()
    theirs.sendall(HEADER.pack(MAX_FRAME_BYTES + 1))
    with pytest.raises(ChannelError, match="over the limit"):
        ours.receive(1.0)
    with pytest.raises(ChannelError, match="over the limit"):
        ours.send({"x": "a" * MAX_FRAME_BYTES})


def test_silence_ends_at_the_deadline_and_a_drip_does_not_extend_it() -> None:
    ours, theirs = channel_pair()
    stop = threading.Event()

    def drip() -> None:
        theirs.sendall(HEADER.pack(1000))
        while not stop.wait(0.02):
            theirs.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    started = time.monotonic()
    with pytest.raises(ChannelTimeout):
        ours.receive(0.3)
    stop.set()
    thread.join()
    assert 0.25 < time.monotonic() - started < 2


def test_a_peer_that_does_not_read_is_given_up() -> None:
    ours, theirs = channel_pair()
    with pytest.raises(ChannelTimeout):
        send_much(ours)
    theirs.close()


def test_the_tick_is_called_while_waiting_and_may_end_the_wait() -> None:
    ours, theirs = channel_pair()

    class Enough(Exception):
        pass

    def tick() -> None:
        raise Enough

    with pytest.raises(Enough):
        ours.receive(5.0, tick=tick)
    theirs.close()


def test_descriptors_travel_to_the_worker_and_never_to_the_supervisor() -> None:
    a, b = pair()
    read_end, write_end = os.pipe()
    a.send({"op": "take"}, [write_end])
    os.close(write_end)
    message, fds = b.receive_with_fds()
    assert message == {"op": "take"}
    os.write(fds[0], b"x")
    assert os.read(read_end, 1) == b"x"

    before = len(os.listdir("/proc/self/fd"))
    b.send({"op": "give"}, fds)
    assert a.receive(1.0) == {"op": "give"}
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor from the worker is not taken in"


def test_a_closed_peer_is_told_apart_from_a_silent_one() -> None:
    ours, theirs = channel_pair()
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(1.0)
    with pytest.raises(ChannelClosed):
        ours.send({"x": 1})
    assert issubclass(ChannelClosed, ChannelError)
    assert isinstance(theirs, socket.socket)

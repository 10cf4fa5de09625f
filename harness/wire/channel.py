"""Length-prefixed JSON over a Unix stream socket, with file descriptors passed one way only.

A frame is a 4-byte big-endian length and that many bytes of UTF-8 JSON, an object. Both sides use it; the supervisor
trusts nothing that arrives: frames are bounded, every read has a deadline, and descriptors sent to it are not received.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

MAX_FRAME_BYTES = 4 << 20
HEADER = struct.Struct("!I")
Message = dict[str, Any]


class ChannelError(Exception):
    """The peer broke the framing: too long a frame, bytes that are no JSON object, or an end inside a frame."""


class ChannelClosed(ChannelError):
    """The peer closed its end; for a worker this means that the process is gone or is hiding."""


class ChannelTimeout(Exception):
    """No whole frame came before the deadline."""


class Channel:
    """One end of the connection.

    `tick` is called about every 50 ms while waiting, so that the owner can watch other things (the size of a log, the
    user's interrupt); an exception it raises ends the wait.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Message, fds: Sequence[int] = (), *, timeout_s: float = 30.0) -> None:
        """Send one frame; `fds` travel with its first bytes. Raises ChannelClosed when the peer is gone and
        ChannelTimeout when it does not read."""
        body = json.dumps(message, separators=(",", ":")).encode()
        if len(body) > MAX_FRAME_BYTES:
            raise ChannelError(f"a frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
        frame = memoryview(HEADER.pack(len(body)) + body)
        self._socket.settimeout(timeout_s)
        try:
            sent = socket.send_fds(self._socket, [frame], list(fds)) if fds else self._socket.send(frame)
            self._socket.sendall(frame[sent:])
        except TimeoutError as error:
            raise ChannelTimeout("the peer does not read") from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self, timeout_s: float | None, *, tick: Callable[[], None] | None = None) -> Message:
        """The next frame. Raises ChannelTimeout at the deadline, ChannelClosed at the peer's end, and ChannelError for
        anything that is not a frame."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        (length,) = HEADER.unpack(self._read(HEADER.size, deadline, tick))
        return self._decode(length, lambda n: self._read(n, deadline, tick))

    def receive_with_fds(self) -> tuple[Message, list[int]]:
        """The next frame and the descriptors that came with it; waits without end. For the worker's side only."""
        self._socket.settimeout(None)
        header, fds, _, _ = socket.recv_fds(self._socket, HEADER.size, 8)
        while len(header) < HEADER.size:
            more = self._socket.recv(HEADER.size - len(header))
            if not more:
                raise ChannelClosed("the peer closed the channel")
            header += more
        (length,) = HEADER.unpack(header)
        return self._decode(length, lambda n: self._read(n, None, None)), fds

    def _decode(self, length: int, read: Callable[[int], bytes]) -> Message:
        if length > MAX_FRAME_BYTES:
            raise ChannelError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
        try:
            message = json.loads(read(length))
        except (ValueError, RecursionError) as error:
            raise ChannelError("a frame is not JSON") from error
        if not isinstance(message, dict):
            raise ChannelError("a frame is not a JSON object")
        return message

    def _read(self, count: int, deadline: float | None, tick: Callable[[], None] | None) -> bytes:
        parts: list[bytes] = []
        while count:
            if deadline is None:
                self._socket.settimeout(None)
            else:
                self._await_readable(deadline, tick)
            try:
                part = self._socket.recv(min(count, 1 << 20))
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not part:
                raise ChannelClosed("the peer closed the channel")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _await_readable(self, deadline: float, tick: Callable[[], None] | None) -> None:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelTimeout("no answer before the deadline")
            ready, _, _ = select.select([self._socket], [], [], min(left, 0.05))
            if ready:
                return
            if tick is not None:
                tick()


def channel_pair() -> tuple[Channel, socket.socket]:
    """The supervisor's end, and the raw socket to hand to the worker."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs

"""The spin in which the clock of a CUDA worker waits for a word, without a device."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.evaluation import clocks
from harness.evaluation.clocks import DeviceClock

WORD, NUMBER = 48, 7


class Page:
    """A page whose word comes after `after_s`."""

    def __init__(self, after_s: float) -> None:
        self._comes_at = time.perf_counter() + after_s

    def __getitem__(self, word: int) -> int:
        return NUMBER if time.perf_counter() >= self._comes_at else 0


class Worker:
    """Counts how often it is watched, which takes time in which no word is seen."""

    def __init__(self) -> None:
        self.channel, self._theirs = socket.socketpair()
        self.watched = 0

    def watch(self) -> None:
        self.watched += 1

    def timed_out(self, timeout_s: float) -> Exception:
        return TimeoutError(f"{timeout_s} s")


def waiting(after_s: float) -> tuple[Any, Worker]:
    clock: Any = DeviceClock.__new__(DeviceClock)
    worker = Worker()
    clock.worker, clock._seen_queued = worker, False
    clock._page = SimpleNamespace(words=Page(after_s))
    return clock, worker


def test_nothing_that_takes_long_is_done_while_a_call_may_end() -> None:
    # A look at the worker's memory takes half a millisecond, which calls of 2 ms and more were once charged.
    clock, worker = waiting(0.02)
    clock._await(WORD, NUMBER, time.monotonic() + 60, 60.0)
    assert worker.watched == 0


def test_a_long_call_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "WATCH_AFTER_NS", 10_000_000)
    monkeypatch.setattr(clocks, "WATCH_EVERY_NS", 5_000_000)
    clock, worker = waiting(0.1)
    clock._await(WORD, NUMBER, time.monotonic() + 60, 60.0)
    assert worker.watched >= 3


def test_a_call_that_never_ends_is_out_of_time() -> None:
    clock, _ = waiting(60.0)
    with pytest.raises(TimeoutError, match=r"3\.0 s"):
        clock._await(WORD, NUMBER, time.monotonic() + 0.02, 3.0)

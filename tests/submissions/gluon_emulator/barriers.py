"""`mbarrier`, which is Hopper's and Blackwell's (tutorial "TMA in Gluon"; the PTX manual, "mbarrier")."""

from __future__ import annotations

from typing import Any

from gluon_emulator.block import Block


class Barrier:
    """A phase of it ends when all arrivals that it counts, and all bytes that they announced, have come."""

    def __init__(self) -> None:
        self.count = self.arrivals = self.bytes = self.phase = 0

    def arrive(self, count: int = 1) -> None:
        assert self.count, "an mbarrier that nobody initialised"
        self.arrivals += count
        assert self.arrivals <= self.count, "more arrivals at an mbarrier than it counts"
        self.end_phase()

    def end_phase(self) -> None:
        if self.arrivals == self.count and self.bytes == 0:
            self.arrivals, self.phase = 0, self.phase ^ 1

    def receive(self, size: int) -> None:
        self.bytes -= size
        self.end_phase()


class Barriers:
    def __init__(self, count: int) -> None:
        self.all = [Barrier() for _ in range(count)]

    def index(self, index: Any) -> Barrier:
        assert 0 <= int(index) < len(self.all)
        return self.all[int(index)]


def init(barrier: Barrier, count: int) -> None:
    assert not barrier.count, "an mbarrier is initialised twice"
    barrier.count = count


def arrive(barrier: Barrier, *, count: int = 1, pred: Any = True) -> None:
    if pred:
        barrier.arrive(count)
        Block.running.pause()


def expect(barrier: Barrier, size: int, pred: Any = True) -> None:
    """An arrival that announces bytes."""
    if pred:
        barrier.bytes += size
        barrier.arrive()


def wait(barrier: Barrier, phase: Any, pred: Any = True) -> None:
    """Until the phase of this parity has ended; the one before the first counts as ended, and as odd."""
    if pred:
        assert barrier.count, "an mbarrier that nobody initialised"
        assert int(phase) in (0, 1), "a phase is a parity"
        Block.running.wait_until(lambda: barrier.phase != int(phase))

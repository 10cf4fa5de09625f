"""The supervisor's clock: one timed call of a worker, from release to done, read in this process.

On CUDA the call and everything it queues wait behind a kernel that fills the device; the clock starts when the
supervisor writes the release word and ends when the device writes the done word. Inputs are written after that kernel
has acknowledged, so that nothing can start on them early. On a CPU the gate is a byte on a socket.
"""

from __future__ import annotations

import gc
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from harness.cuda.digest import Value
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.workers import WorkerFault, WorkerProcess, open_clock
from harness.wire import words
from harness.wire.channel import Message

HOLD_CAP_S = 0.1
"""How long a call may take to queue its work before it is released all the same. A call that synchronises inside waits
for the device and so never says that it is queued; its host time after this counts."""
LOOK_AWAY_NS = 2_000_000
"""After so long in the spin, the clock also looks at the channel, for a worker that died or failed: 2 µs."""
WATCH_AFTER_NS, WATCH_EVERY_NS = 1_000_000_000, 500_000_000
"""Whether a worker keeps to its limits of memory and output is seen from the first on, and so often. That takes half a
millisecond, in which no done word is seen: of calls that end before, nothing; of longer ones, a thousandth at most."""


def nothing() -> None:
    """No input to write."""


@dataclass(frozen=True)
class Gated:
    """What the supervisor does while a call waits at the gate, and after it."""

    reveal: Callable[[], None] = nothing
    """Writes the input."""
    complete: Callable[[], None] = nothing
    """Writes what was withheld of it; the clock starts right afterwards."""
    snapshot: Callable[[], list[torch.Tensor]] = list
    """Takes private copies of the output, which no later write reaches."""


@dataclass(frozen=True)
class TimedCall:
    """One reading, from the release of the call. `wall_ns` ends with the done word, `committed_ns` when the worker
    could no longer change its output: it lay in the shared slot and the worker was stopped, or on a CUDA device its
    digest was told. `answer_ns` is when its snapshot was ours. `held` says that the call was released by the cap."""

    wall_ns: int
    committed_ns: int
    answer_ns: int
    gate_ns: int
    """From the reveal of the input to the release. Nothing of the submission runs in it, if all is honest."""
    events_ns: int
    held: bool
    answer: Message
    digest: Value | None = None
    """Of the output's tensors in device memory, as the worker told it."""


Reading = tuple[TimedCall, "list[torch.Tensor]"]
"""A timed call and the snapshot of its output."""


class Clock(Protocol):
    """The gate of one worker."""

    worker: WorkerProcess

    def timed(self, request: Message, gated: Gated, timeout_s: float) -> Reading:
        """Send `request` (`timed` or `noop`, without its number), reveal and complete the input at the gate, time the
        call, and take the snapshot of its output at once. Raises WorkerFault."""

    def close(self) -> None: ...


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector out of a timed stretch."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class SocketClock:
    """The CPU's gate.

    A CPU has no kernel that keeps everything else off it, so the worker's processes are stopped instead: while the
    input is written (a thread could watch it come), and from the answer to the next request (one could go on writing,
    or keep the cores busy while the clock's own cost is measured). The gate opens, and the clock starts, before they
    are let go: nothing of the worker runs between the input's arrival and t0.
    """

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        self._socket = open_clock(worker)
        self._number = 0

    def timed(self, request: Message, gated: Gated, timeout_s: float) -> Reading:
        self._number += 1
        self.worker.send({**request, "number": self._number})
        self.worker.answer(timeout_s)  # queued: it waits at the gate
        self.worker.freeze()
        self._refuse_early_words()
        gated.reveal()
        gated.complete()
        self.worker.freeze()  # and nothing ran meanwhile
        with no_collection():
            self._open_gate()
            t0 = time.perf_counter_ns()
            self.worker.thaw()
            self._await_done(time.monotonic() + timeout_s, timeout_s)
            t1 = time.perf_counter_ns()
        answer = self.worker.answer(timeout_s)
        self.worker.stop()
        t2 = time.perf_counter_ns()
        if not self.worker.freeze():  # a process born in the call ran on until now
            t2 = time.perf_counter_ns()
        output = gated.snapshot()
        t3 = time.perf_counter_ns()
        self.worker.freeze()  # and nothing wrote meanwhile
        return TimedCall(t1 - t0, t2 - t0, t3 - t0, 0, 0, False, answer), output

    def _refuse_early_words(self) -> None:
        """A done word that is here before the gate opens was not written by the call. A worker that died is no liar."""
        if select.select([self._socket], [], [], 0)[0]:
            if not self._said_done():
                raise self.worker.ended(RuntimeError("its clock closed before the call"))
            self.worker.kill()
            text = "the worker said that a call was done before the call had begun"
            raise WorkerFault(Status.REJECTED, Reason(ReasonCode.CHANNEL, text))

    def _open_gate(self) -> None:
        try:
            self._socket.send(b"g")
        except OSError as error:
            raise self.worker.ended(error) from None

    def _said_done(self) -> bool:
        """Take the done word from the socket that is readable; False where only its end is there to be read."""
        try:
            return bool(self._socket.recv(1))
        except OSError:  # reset: the worker died with a word of ours unread
            return False

    def _await_done(self, deadline: float, timeout_s: float) -> None:
        watch_at = time.perf_counter_ns() + WATCH_AFTER_NS
        while True:
            # The channel too: a worker that failed or died tells it there and never writes the done byte.
            waiting: list[Any] = [self._socket, self.worker.channel]
            ready, _, _ = select.select(waiting, [], [], 0.05)
            if self._socket in ready and self._said_done():
                return
            if self.worker.channel in ready or self._socket in ready:
                self.worker.answer(1.0)
                raise self.worker.ended(RuntimeError("it answered before its call was done"))
            if time.monotonic() > deadline:
                raise self.worker.timed_out(timeout_s)
            if time.perf_counter_ns() > watch_at:
                self.worker.watch()
                watch_at = time.perf_counter_ns() + WATCH_EVERY_NS

    def close(self) -> None:
        self._socket.close()


class DeviceClock:
    """The gate of a CUDA worker: a page of words mapped into both processes (see `harness.wire.words`)."""

    def __init__(self, worker: WorkerProcess, *, timeout_s: float = 120.0) -> None:
        self.worker = worker
        self._page = words.Page.create()
        self._number = 0
        self._ping = 0
        self._seen_queued = False
        worker.ask({"op": "open", "device": "cuda"}, [self._page.fd], timeout_s=timeout_s)

    def close(self) -> None:
        self._page.close()

    def timed(self, request: Message, gated: Gated, timeout_s: float) -> Reading:
        self._number += 1
        self._seen_queued = False
        number, page = self._number, self._page.words
        deadline = time.monotonic() + timeout_s
        self.worker.send({**request, "number": number})
        try:
            self._await(words.ACKNOWLEDGE, number, deadline, timeout_s)
            queued = self._await_queued(min(time.monotonic() + HOLD_CAP_S, deadline))
            gated.reveal()
            with no_collection():
                revealed = time.perf_counter_ns()
                page[words.REVEALED] = number
                self._await(words.FLUSHED, number, deadline, timeout_s)
                self._await_scheduled(deadline, timeout_s)
                gated.complete()
                t0 = time.perf_counter_ns()
                page[words.RELEASE] = number
                self._await(words.DONE, number, deadline, timeout_s)
                t1 = time.perf_counter_ns()
                self._await(words.DIGESTED, number, deadline, timeout_s)
                t2 = time.perf_counter_ns()
                digest = self._digest()
                self._await(words.COPIED, number, deadline, timeout_s)
                output = gated.snapshot()
                t3 = time.perf_counter_ns()
        finally:
            # Whatever happened, the device must not be left at the gate.
            page[words.REVEALED] = page[words.RELEASE] = number
        answer = self._finished(deadline, timeout_s)
        events_ns = _count(answer.get("events_ns"))
        reading = TimedCall(t1 - t0, t2 - t0, t3 - t0, t0 - revealed, events_ns, not queued, answer, digest)
        return reading, output

    def _digest(self) -> Value:
        first, second, third = (self._page.words[words.DIGEST + i] & 0xFFFFFFFF for i in range(3))
        return first, second, third

    def _await(self, word: int, value: int, deadline: float, timeout_s: float) -> None:
        page = self._page.words
        began = time.perf_counter_ns()
        look_at, watch_at = began + LOOK_AWAY_NS, began + WATCH_AFTER_NS
        while page[word] != value:
            now = time.perf_counter_ns()
            if now > look_at:
                self._look(deadline, timeout_s)
                look_at = time.perf_counter_ns() + LOOK_AWAY_NS // 4
            if now > watch_at:
                self.worker.watch()
                watch_at = time.perf_counter_ns() + WATCH_EVERY_NS

    def _look(self, deadline: float, timeout_s: float) -> None:
        """Raise when the worker failed, died, or is out of time."""
        ready, _, _ = select.select([self.worker.channel], [], [], 0)
        if ready:
            answer = self.worker.answer(1.0)
            if "queued" not in answer:
                raise self.worker.ended(RuntimeError("it answered before its call was done"))
            self._seen_queued = True
        if time.monotonic() > deadline:
            raise self.worker.timed_out(timeout_s)

    def _await_queued(self, until: float) -> bool:
        if self._seen_queued:
            return True
        ready, _, _ = select.select([self.worker.channel], [], [], max(0.0, until - time.monotonic()))
        if ready:
            self.worker.answer(1.0)
            self._seen_queued = True
        return self._seen_queued

    def _finished(self, deadline: float, timeout_s: float) -> Message:
        if not self._seen_queued:
            self.worker.answer(max(deadline - time.monotonic(), 1.0))
        return self.worker.answer(max(deadline - time.monotonic(), 1.0))

    def _await_scheduled(self, deadline: float, timeout_s: float) -> None:
        """Wait until the worker's context holds the device again after our own work on it: its poller echoes a ping."""
        self._ping += 1
        self._page.words[words.PING] = self._ping
        self._await(words.PONG, self._ping, deadline, timeout_s)


def _count(value: object) -> int:
    """A non-negative integer that a worker named, or 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else 0


__all__ = ["Clock", "DeviceClock", "SocketClock", "TimedCall", "WorkerFault"]

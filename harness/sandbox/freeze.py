"""Stopping a worker's whole tree, so that nothing of it runs while the supervisor writes an input or reads an output.

Signals do it: a control group's freezer would need one that is writable. A process can't refuse SIGSTOP, but it can
arrange to be sent SIGCONT (a timer's signal, a descriptor's), so `thaw` looks whether anything ran meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

from harness.sandbox.processes import pids_below, read_process

FREEZE_TIMEOUT_S = 20.0
_STOPPED = b"TtZXx"

STOPPING_NS = 300_000
"""What a thread may have run in the kernel between its being marked as stopped and its last instruction there."""
STOLEN_NS = 20_000_000
"""The same of a thread that has not been given a core again since: a virtual machine's host may have taken that core
away for a while, which counts as run. A thread that is continued is given one, but for a race of microseconds."""


@dataclass(frozen=True)
class Ran:
    """How long a thread has run, in ns, and how often it was given a core (0 where the kernel does not tell)."""

    ns: int
    times: int

    def may_be_of_the_stop(self, now: Ran) -> bool:
        """Whether what it has run since may all be the way to its stop."""
        again = now.times != self.times or not now.times
        return now.ns - self.ns <= (STOPPING_NS if again else STOLEN_NS)


Threads = dict[tuple[int, int], Ran]
"""By process and thread."""
NEVER = Ran(-STOPPING_NS - 1, 0)
"""Of a thread that was not there: whatever it has run is too much."""


class FreezeError(Exception):
    """The tree did not stop."""


class RanWhileFrozenError(FreezeError):
    """Something of it ran all the same, which takes some arranging."""


class Freezer:
    """Stops and continues everything below `pid`, a worker's guard (the guard itself runs nothing of the worker's)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ran: Threads | None = None
        self._stopping = False
        self._known: dict[int, int] = {}
        """Processes of the last freeze with the time each started, since a pid may be another's by now."""

    @property
    def frozen(self) -> bool:
        return self._ran is not None

    def stop(self) -> None:
        """Signal the processes of the last freeze to stop, and return at once: what runs stops within microseconds,
        what waits for a core runs nothing more. `freeze` then sees to those that are new."""
        if self._ran is None:
            self._stopping = True
            _signal((pid for pid in self._known if self._started(pid) == self._known[pid]), signal.SIGSTOP)

    def freeze(self) -> bool:
        """Stop all; returns when every thread rests. Does nothing when frozen already. Raises FreezeError.

        False where there were processes that `stop` could not know: those ran on until they were found.
        """
        deadline = time.monotonic() + FREEZE_TIMEOUT_S
        self.stop()
        all_known = True
        while self._ran is None:
            ran, moving = self._look(_STOPPED)
            all_known &= all(process in self._known for process, _ in ran)
            if not moving:
                self._ran, self._known = ran, {process: self._started(process) for process, _ in ran}
                break
            _signal(moving, signal.SIGSTOP)
            if time.monotonic() > deadline:
                raise FreezeError(f"the worker could not be stopped within {FREEZE_TIMEOUT_S:g} s")
        return all_known

    def thaw(self) -> None:
        """Continue all that `freeze` or `stop` stopped."""
        if self._ran is not None or self._stopping:
            self._ran, self._stopping = None, False
            _signal(self._known, signal.SIGCONT)

    def check(self) -> None:
        """Raise RanWhileFrozenError if anything ran since `freeze`."""
        if self._ran is None:
            return
        now, _ = self._look(_STOPPED)
        if not all(self._ran.get(thread, NEVER).may_be_of_the_stop(ran) for thread, ran in now.items()):
            raise RanWhileFrozenError("something of the worker ran while it was stopped")

    @staticmethod
    def _started(pid: int) -> int:
        process = read_process(pid)
        return -1 if process is None else process.started

    def _look(self, rest: bytes) -> tuple[Threads, set[int]]:
        """What every thread below has run, and the processes of which a thread is in no state of `rest`."""
        ran: Threads = {}
        moving: set[int] = set()
        for process in pids_below(self._pid):
            with contextlib.suppress(OSError, ValueError):  # one that ends meanwhile
                # Asked for a whole process, the kernel brings the count of threads that are still on a core up to date,
                # which of a thread it does at ticks: one just marked as stopped would seem to have run since.
                _read(f"/proc/{process}/stat")
                for name in os.listdir(f"/proc/{process}/task"):
                    stat = _read(f"/proc/{process}/task/{name}/stat")
                    if stat[stat.rindex(b")") + 2] not in rest:
                        moving.add(process)
                    ran[process, int(name)] = _ran(stat, _read(f"/proc/{process}/task/{name}/schedstat"))
        return ran, moving


def _ran(stat: bytes, schedstat: bytes) -> Ran:
    """By the scheduler's own counts, or by the ticks of a kernel that does not show them."""
    if schedstat:
        ns, _, times = map(int, schedstat.split())
        return Ran(ns, times)
    user, system = stat[stat.rindex(b")") + 2 :].split()[11:13]
    return Ran((int(user) + int(system)) * (1_000_000_000 // os.sysconf("SC_CLK_TCK")), 0)


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)

"""Stopping a worker's whole tree, so that nothing of it runs while the supervisor writes an input or reads an output.

Signals do it: a control group's freezer would need one that is writable. A process can't refuse SIGSTOP, but it can
arrange to be sent SIGCONT (a timer's signal, a descriptor's), so `thaw` looks whether anything ran meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.sandbox.processes import pids_below, read_process

FREEZE_TIMEOUT_S = 20.0
_STOPPED = b"TtZXx"

STOPPING_NS = 300_000
"""What a process may run in the kernel between its being marked as stopped and its last instruction there."""
STOLEN_NS = 20_000_000
"""The same of a process of which no thread has been given a core again since: a virtual machine's host may have taken
that core away for a while, which counts as run. A thread that is continued is given one, but for a race of
microseconds."""


@dataclass(frozen=True)
class Ran:
    """How long a process has run, all threads together, those that ended too, in ns; and how often each of its threads
    was given a core, by id (0 where the kernel does not tell)."""

    ns: int
    times: Mapping[int, int]

    def may_be_of_the_stop(self, now: Ran) -> bool:
        """Whether what it has run since may all be the way to its stop. Less than before is another process."""
        again = now.times != self.times or not all(now.times.values())
        return 0 <= now.ns - self.ns <= (STOPPING_NS if again else STOLEN_NS)


Processes = dict[int, Ran]
NEVER = Ran(-STOLEN_NS - 1, {})
"""Of a process that was not there: whatever it has run is too much."""


class FreezeError(Exception):
    """The tree did not stop."""


class RanWhileFrozenError(FreezeError):
    """Something of it ran all the same, which takes some arranging."""


class Freezer:
    """Stops and continues everything below `pid`, a worker's guard (the guard itself runs nothing of the worker's)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ran: Processes | None = None
        self._at_stop: dict[int, int] | None = None
        """How long each process had run when it was signalled."""
        self._known: dict[int, int] = {}
        """Processes of the last freeze with the time each started, since a pid may be another's by now."""

    @property
    def frozen(self) -> bool:
        return self._ran is not None

    def stop(self) -> None:
        """Signal the processes of the last freeze to stop, and return at once: what runs stops within microseconds,
        what waits for a core runs nothing more. `freeze` then sees to those that are new, or go on."""
        if self._ran is None:
            _signal((pid for pid in self._known if self._started(pid) == self._known[pid]), signal.SIGSTOP)
            self._at_stop = {pid: _ran_ns(pid) for pid in self._known}

    def freeze(self) -> bool:
        """Stop all; returns when every thread rests. Does nothing when frozen already. Raises FreezeError.

        False where something ran on until now: processes that `stop` could not know, or that a signal does not stop
        at once, as when their first thread waits for another of theirs in the kernel.
        """
        if self._ran is not None:
            return True
        deadline = time.monotonic() + FREEZE_TIMEOUT_S
        self.stop()
        assert self._at_stop is not None
        stopped_at_once = True
        while self._ran is None:
            ran, moving = self._look()
            stopped_at_once &= ran.keys() <= self._known.keys()
            if not moving:
                self._ran, self._known = ran, {process: self._started(process) for process in ran}
                break
            _signal(moving, signal.SIGSTOP)
            if time.monotonic() > deadline:
                raise FreezeError(f"the worker could not be stopped within {FREEZE_TIMEOUT_S:g} s")
        since = (now.ns - self._at_stop.get(process, 0) for process, now in ran.items())
        return stopped_at_once and all(ns <= STOPPING_NS for ns in since)

    def thaw(self) -> None:
        """Continue all that `freeze` or `stop` stopped."""
        if self._ran is not None or self._at_stop is not None:
            self._ran = self._at_stop = None
            _signal(self._known, signal.SIGCONT)

    def check(self) -> None:
        """Raise RanWhileFrozenError if anything ran since `freeze`."""
        if self._ran is None:
            return
        now, _ = self._look()
        if not all(self._ran.get(process, NEVER).may_be_of_the_stop(ran) for process, ran in now.items()):
            raise RanWhileFrozenError("something of the worker ran while it was stopped")

    @staticmethod
    def _started(pid: int) -> int:
        process = read_process(pid)
        return -1 if process is None else process.started

    def _look(self) -> tuple[Processes, set[int]]:
        """What every process below has run, and those of which a thread is not at rest. How long they ran is read last
        and together: what goes on while this looks at others is in it."""
        times: dict[int, dict[int, int]] = {}
        moving: set[int] = set()
        for process in pids_below(self._pid):
            try:
                threads = os.listdir(f"/proc/{process}/task")
            except OSError:  # it ended
                continue
            times[process] = {}
            for name in threads:
                try:
                    stat = _read(f"/proc/{process}/task/{name}/stat")
                    if stat[stat.rindex(b")") + 2] not in _STOPPED:
                        moving.add(process)
                    schedstat = _read(f"/proc/{process}/task/{name}/schedstat").split()
                    times[process][int(name)] = int(schedstat[2]) if schedstat else 0
                except (OSError, ValueError):  # a thread that ends meanwhile, so its process is not at rest
                    moving.add(process)
        return {process: Ran(_ran_ns(process), of) for process, of in times.items()}, moving


def _ran_ns(pid: int) -> int:
    """By the process's own clock (its number: clock_getcpuclockid(3), Linux's CPUCLOCK_SCHED), which the kernel brings
    up to date for threads that are on a core; 0 of a process that is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


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

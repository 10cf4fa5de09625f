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

from harness.sandbox.processes import pids_below, read_process

FREEZE_TIMEOUT_S = 5.0
_AT_REST = b"TtZXx"

Ran = dict[tuple[int, int], bytes]
"""For every thread (process, thread), what the kernel counts of its running."""


class FreezeError(Exception):
    """The tree did not stop, or ran while it should have been stopped; the text says which."""


class Freezer:
    """Stops and continues everything below `pid`, a worker's guard (the guard itself runs nothing of the worker's)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ran: Ran | None = None
        self._known: dict[int, int] = {}
        """Processes of the last freeze with the time each started, since a pid may be another's by now."""

    @property
    def frozen(self) -> bool:
        return self._ran is not None

    def freeze(self) -> None:
        """Stop all; returns when every thread rests. Does nothing when frozen already. Raises FreezeError."""
        deadline = time.monotonic() + FREEZE_TIMEOUT_S
        if self._ran is None:
            _signal((pid for pid in self._known if self._started(pid) == self._known[pid]), signal.SIGSTOP)
        while self._ran is None:
            ran, moving = self._look()
            if not moving:
                self._ran, self._known = ran, {process: self._started(process) for process, _ in ran}
                return
            _signal(moving, signal.SIGSTOP)
            if time.monotonic() > deadline:
                raise FreezeError(f"the worker could not be stopped within {FREEZE_TIMEOUT_S:g} s")

    def thaw(self) -> None:
        """Continue all. Does nothing when not frozen."""
        if self._ran is not None:
            self._ran = None
            _signal(self._known, signal.SIGCONT)

    def check(self) -> None:
        """Raise FreezeError if anything ran since `freeze`."""
        if self._ran is not None and self._look()[0] != self._ran:
            raise FreezeError("something of the worker ran while it was stopped")

    @staticmethod
    def _started(pid: int) -> int:
        process = read_process(pid)
        return -1 if process is None else process.started

    def _look(self) -> tuple[Ran, set[int]]:
        """What every thread below has run, and the processes of which a thread does not rest."""
        ran: Ran = {}
        moving: set[int] = set()
        for process in pids_below(self._pid):
            with contextlib.suppress(OSError, ValueError):  # one that ends meanwhile
                for name in os.listdir(f"/proc/{process}/task"):
                    stat = _read(f"/proc/{process}/task/{name}/stat")
                    if stat[stat.rindex(b")") + 2] not in _AT_REST:
                        moving.add(process)
                    ran[process, int(name)] = _read(f"/proc/{process}/task/{name}/schedstat") or stat
        return ran, moving


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

"""The workers of one phase, each with the submission loaded, which take the calls of a case by turns.

What a launch costs on a CUDA device differs from process to process by a tenth of a microsecond or so and stays the
same as long as the process lives (docs/measurements/2026-11-30-h200-noise.md), so one process measures itself very
precisely and the kernel only within a percent. A score that is to be compared comes from several.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from harness.errors import MachineError
from harness.evaluation.host import Host
from harness.evaluation.record import Device, Mode
from harness.evaluation.session import Session, open_sessions

RANKED = 5
"""Worker processes that a ranked benchmark is measured in on a CUDA device: of the 15 calls that a case has at least,
three in each, so that one disturbed call is no worker's median. Those of a CPU take turns on the same cores and caches;
what differs between them is lost in what else the machine does."""
MEMORY_EACH = 8 << 30
"""There are as many of them as the device, and the machine, have so much memory for; a context alone takes half a
gigabyte of both."""


def crew_size(mode: Mode, device: Device, host_bytes: int | None = None) -> int:
    """How many workers measure a benchmark, unless a plan says otherwise. `host_bytes`: None for this machine's."""
    if mode is not Mode.LEADERBOARD or device.kind != "cuda":
        return 1
    memory = min(int(device.details.get("memory_bytes", 0)), host_bytes or psutil.virtual_memory().total)
    return max(1, min(RANKED, memory // MEMORY_EACH))


class Crew:
    """`size` workers of one host. Call `ready` before each case, `close` at the end."""

    def __init__(self, host: Host, phase: str, size: int, *, cuda: bool) -> None:
        self._host, self._phase, self._cuda = host, phase, cuda
        self.size = size
        self._sessions: list[Session] = []
        self._told: dict[Path, int] = {}

    def ready(self, timeout_s: float) -> list[Session]:
        """The crew, complete and loaded. Raises WorkerFault where the submission cannot be loaded, and MachineError
        where not even one worker comes up."""
        for session in [each for each in self._sessions if not each.alive]:
            session.close()
            self._sessions.remove(session)
        missing = self.size - len(self._sessions)
        if missing:
            fresh = self._open(missing)
            self._sessions += fresh
            for session in fresh:
                # What is there before the file is loaded is ours.
                self._told[session.worker.log] = session.worker.log_bytes()
            if len(fresh) == 1:
                fresh[0].import_submission(timeout_s)
            else:
                with ThreadPoolExecutor(len(fresh)) as pool:
                    for _ in pool.map(lambda session: session.import_submission(timeout_s), fresh):
                        pass
        return list(self._sessions)

    def _open(self, missing: int) -> list[Session]:
        try:
            return open_sessions(self._host, self._phase, missing, cuda=self._cuda, sharers=self.size)
        except MachineError:
            if self.size == 1:
                raise
        self.reduce_to_one()
        return open_sessions(self._host, self._phase, 1, cuda=self._cuda)

    def reduce_to_one(self) -> None:
        """End all workers; from now on there is one."""
        self.close()
        self.size = 1

    def printed(self, failed: Session | None = None) -> tuple[int, Path | None]:
        """What was printed since this was last asked: bytes and log of the worker that failed, or else of the one that
        printed most, as each of them prints the same."""
        most, log = 0, None
        for session in dict.fromkeys([*self._sessions, *([failed] if failed else [])]):
            worker = session.worker
            total = worker.log_bytes()
            new, self._told[worker.log] = total - self._told.get(worker.log, 0), total
            if session is failed and new > 0:
                return new, worker.log
            if new > most:
                most, log = new, worker.log
        return most, log

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        self._sessions = []

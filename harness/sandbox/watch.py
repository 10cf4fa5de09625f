"""Bounds that the kernel doesn't keep for us: memory where no control group can be had, and the size of folders."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.sandbox.processes import kill_tree, memory_bytes, read_process


class Watcher(ABC):
    """Looks now and then, by `check` or in a thread of its own (`with watcher:`), and ends the worker at an excess.

    A thread shares the interpreter with its process: one that times something calls `check` between its calls
    instead.
    """

    def __init__(self, pid: int, *, uid: int | None = None, interval_s: float = 0.05) -> None:
        self._pid = pid
        self._uid = uid
        self._interval_s = interval_s
        self._process = read_process(pid)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.exceeded: str | None = None
        """Why the worker was ended; None as long as it wasn't."""

    @abstractmethod
    def _excess(self) -> str | None:
        """What is too much, as a sentence."""

    def check(self) -> str | None:
        """Look once; ends the worker and returns the reason when a bound is passed."""
        if self.exceeded is None and self._lives():
            self.exceeded = self._excess()
            if self.exceeded is not None:
                kill_tree(self._pid, uid=self._uid)
        return self.exceeded

    def _lives(self) -> bool:
        now = read_process(self._pid)
        return now is not None and now.alive and self._process is not None and now.started == self._process.started

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, name=type(self).__name__, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._interval_s):
            if self.check() is not None or not self._lives():
                return


class MemoryWatcher(Watcher):
    """Ends the worker `pid` when it and all below it hold more than `limit_bytes` of memory.

    Between two looks it may take more; files in its /tmp and /dev/shm don't count unless mapped (their size is
    bounded by the plan).
    """

    def __init__(self, pid: int, limit_bytes: int, *, uid: int | None = None, interval_s: float = 0.05) -> None:
        super().__init__(pid, uid=uid, interval_s=interval_s)
        self._limit_bytes = limit_bytes

    def _excess(self) -> str | None:
        # The exact sum walks the worker's page tables, under a lock that it needs itself: only when it may matter.
        if memory_bytes(self._pid, exact=False) <= self._limit_bytes:
            return None
        held = memory_bytes(self._pid, exact=True)
        if held <= self._limit_bytes:
            return None
        return f"used {held / 2**20:.0f} MiB of memory, {self._limit_bytes / 2**20:.0f} MiB are allowed"


class FolderWatcher(Watcher):
    """Ends the worker `pid` when the folders hold more than `limit_bytes` on disk together."""

    def __init__(
        self,
        pid: int,
        folders: Iterable[Path],
        limit_bytes: int,
        *,
        uid: int | None = None,
        interval_s: float = 0.25,
    ) -> None:
        super().__init__(pid, uid=uid, interval_s=interval_s)
        self._folders = tuple(folders)
        self._limit_bytes = limit_bytes

    def _excess(self) -> str | None:
        held = sum(disk_bytes(folder) for folder in self._folders)
        if held <= self._limit_bytes:
            return None
        return f"wrote {held / 2**20:.0f} MiB of files, {self._limit_bytes / 2**20:.0f} MiB are allowed"


def disk_bytes(folder: Path) -> int:
    """Bytes that a folder's files take up on disk; links aren't followed."""
    total = 0
    for _, _, files, at in os.fwalk(folder, follow_symlinks=False, onerror=lambda error: None):
        for name in files:
            try:
                total += os.stat(name, dir_fd=at, follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return total

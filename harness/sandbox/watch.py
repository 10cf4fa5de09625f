"""Bounds that the kernel doesn't keep for us: memory where no control group can be had, and the size of folders."""

from __future__ import annotations

import contextlib
import math
import os
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.sandbox.processes import kill_tree, memory_bytes, pids_below, read_process
from harness.trees import Bounds, Tally, TooMuchError

MOST_FILES = 100_000
"""Files and folders that a worker may have on the host's disk: a look at so many takes a second."""


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

    def _due(self) -> bool:
        """Whether it is time for another look."""
        return True

    def check(self) -> str | None:
        """Look once; ends the worker and returns the reason when a bound is passed."""
        if self.exceeded is None and self._due() and self._lives():
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
    """Ends the worker `pid` when the folders hold more than `limit_bytes` together, files counted by their length or
    by what they take on disk, whichever is more; or so many files, or so deeply nested, that they can't be watched.

    A look walks all of them, so `check` looks only when `interval_s` has passed and ten times what the last look took;
    sooner where the disk has lost a quarter of the limit since. Files that have no name any more count as long as a
    descriptor of the worker's is seen to hold them.
    """

    def __init__(
        self,
        pid: int,
        folders: Iterable[Path],
        limit_bytes: int,
        *,
        uid: int | None = None,
        interval_s: float = 1.0,
    ) -> None:
        super().__init__(pid, uid=uid, interval_s=interval_s)
        self._folders = tuple(folders)
        self._bounds = Bounds(limit_bytes, MOST_FILES)
        self._looked_at, self._took_s, self._free_bytes = -math.inf, 0.0, 0

    def _due(self) -> bool:
        rested_s = time.monotonic() - self._looked_at
        if rested_s >= max(self._interval_s, 10 * self._took_s):
            return True
        return rested_s > self._took_s and self._free_bytes - self._free() > self._bounds.size_bytes // 4

    def _free(self) -> int:
        """Bytes that the folders' disks have left."""
        free = {}
        for folder in self._folders:
            with contextlib.suppress(OSError):
                disk = os.statvfs(folder)
                free[disk.f_fsid] = disk.f_bavail * disk.f_frsize
        return sum(free.values())

    def _excess(self) -> str | None:
        began, self._free_bytes = time.monotonic(), self._free()
        tally = Tally(self._bounds)
        try:
            for folder in self._folders:
                tally.add_below(folder)
            for found in self._nameless():
                tally.add(found)
        except TooMuchError as error:
            return f"wrote {error}"
        finally:
            self._looked_at = time.monotonic()
            self._took_s = self._looked_at - began
        return None

    def _nameless(self) -> Iterator[os.stat_result]:
        """Files on the folders' disks that the worker holds open and has removed."""
        devices = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                devices.add(os.lstat(folder).st_dev)
        for pid in pids_below(self._pid):
            try:
                descriptors = os.listdir(f"/proc/{pid}/fd")
            except OSError:
                continue
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{descriptor}")
                    if found.st_nlink == 0 and stat.S_ISREG(found.st_mode) and found.st_dev in devices:
                        yield found

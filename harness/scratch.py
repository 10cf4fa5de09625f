"""Scratch folders that do not outlive their use: whoever makes one takes away what killed processes left.

A folder belongs to a live process as long as that holds the lock on the file in it, which the kernel lets go whatever
way the process ends, and which holds across containers that share a file system. Submissions write to such folders,
so that anything may be in them (see `harness.trees`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness.trees import remove_tree

LOCK = ".lock"
PASSABLE = 0o711
"""The mode of a folder that workers under another uid must pass through; they can't list it."""
_EMPTY_FOR_S = 60.0
"""An empty folder may be about to get its lock; after so long, its maker died before."""
_WITHOUT_LOCK_FOR_S = 86400.0
"""After so long, one that holds something and no lock is taken to have lost it."""
_told: set[Path] = set()


@dataclass
class Scratch:
    """A folder of this process."""

    path: Path
    fd: int
    """Holds the lock; -1 when the folder is given up."""

    @classmethod
    def make(cls, prefix: str, mode: int = 0o700) -> Scratch:
        """A new folder `<temp>/<prefix>…`; stale ones of the same prefix go. `prefix` names what the folder is for."""
        sweep(prefix)
        while True:
            path = Path(tempfile.mkdtemp(prefix=prefix))
            path.chmod(mode)
            fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if (path / LOCK).exists():
                return cls(path, fd)
            os.close(fd)  # somebody swept it between the two lines

    def remove(self) -> None:
        """Take the folder away. Safe to call again."""
        if self.fd < 0:
            return
        # The lock goes last: what is cut off leaves something for the next sweep to know the folder by.
        _tell(self.path, remove_tree(self.path, last=LOCK))
        fd, self.fd = self.fd, -1
        with contextlib.suppress(OSError):
            os.close(fd)


def sweep(prefix: str) -> list[Path]:
    """Remove this user's folders of that prefix whose process is gone; which these were. One that can't be removed is
    told of once."""
    gone = []
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _abandoned(path, found.st_mtime):
                gone.append(path)
    return gone


def _abandoned(path: Path, changed_at: float) -> bool:
    """Remove `path` if nobody holds it; whether it was so."""
    try:
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # none, or something that is no lock
        return _removed_without_lock(path, time.time() - changed_at)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return _tell(path, remove_tree(path, last=LOCK))
    finally:
        os.close(fd)


def _removed_without_lock(path: Path, unchanged_s: float) -> bool:
    """Remove a folder that has no lock yet, or none any more. It may be another program's of that name."""
    if unchanged_s < _EMPTY_FOR_S:
        return False
    if unchanged_s >= _WITHOUT_LOCK_FOR_S:
        return _tell(path, remove_tree(path))
    path.rmdir()
    return True


def _tell(path: Path, problem: OSError | None) -> bool:
    """Say once that a folder can't be removed; whether it is gone."""
    if problem is not None and path not in _told:
        _told.add(path)
        if sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                print(f"warning: {path} can't be removed: {problem.strerror}", file=sys.stderr)
    return problem is None

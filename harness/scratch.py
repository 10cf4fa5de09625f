"""Scratch folders that do not outlive their use: whoever makes one takes away what killed processes left.

A folder belongs to a live process as long as that holds the lock on the file in it, which the kernel lets go whatever
way the process ends, and which holds across containers that share a file system.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LOCK = ".lock"
PASSABLE = 0o711
"""The mode of a folder that workers under another uid must pass through; they can't list it."""
_EMPTY_FOR_S = 60.0
"""An empty folder may be about to get its lock; after so long, its maker died before."""


@dataclass(frozen=True)
class Scratch:
    """A folder of this process."""

    path: Path
    fd: int

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
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self.fd)


def sweep(prefix: str) -> list[Path]:
    """Remove this user's folders of that prefix whose process is gone; which these were."""
    gone = []
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            if _abandoned(path):
                gone.append(path)
    return gone


def _abandoned(path: Path) -> bool:
    """Remove `path` if nobody holds it; whether it was so."""
    try:
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        # No lock yet, or none any more: only an empty folder goes, since another program's might have that name.
        if time.time() - path.stat().st_mtime < _EMPTY_FOR_S:
            return False
        path.rmdir()
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        # The lock goes last: a sweep that is cut off leaves something for the next one to know it by.
        for entry in path.iterdir():
            if entry.name != LOCK:
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(fd)

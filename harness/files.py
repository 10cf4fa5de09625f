"""Writing a user's files so that a full disk, or an interrupt, leaves what was there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, that takes the place of `path` when all is written; of a link, the place of its target.

    What is neither a file nor a folder (a pipe, a device) is written to as it is. Raises OSError; the block's errors go
    through. In both cases the old file stands and nothing is left beside it.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if target.exists() and not target.is_file():
        yield target
        return
    unfinished = target.with_name(f".harness-{os.getpid()}.unfinished")
    try:
        yield unfinished
        if target.exists():
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(unfinished, target)
    finally:
        with suppress(OSError):
            unfinished.unlink()


def write_in_place_of(path: Path, content: bytes) -> None:
    """Write a file whole, or leave what is there. Raises OSError."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not be there yet, whole or not at all. Raises FileExistsError and other OSErrors."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except BaseException:
            path.unlink()
            raise

"""A user's files: paths as they are typed, and writing so that a full disk, or an interrupt, leaves what was there.

Whether something is there is asked by `os.path.exists`, `isfile` and `isdir`: those of `pathlib` raise for a name that
is too long and below a folder that may not be entered.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import HarnessError, RequestError, disk_fault


def user_path(text: str | Path, where: str = "") -> Path:
    """The path that somebody typed, `~` and `~name` taken for home folders. `where` is what gave it, by default itself.

    Raises RequestError where there is no such user, and for a NUL, which no path may hold.
    """
    if "\0" in str(text):
        raise RequestError(f"{str(text)!r} is no path: it holds a NUL", where=where)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        user = str(text).partition("/")[0]
        raise RequestError(
            f"'{user}' is nobody's home folder here", where=where or str(text), hint=f"./{user} is a file of that name."
        ) from error


def absolute_path(path: Path, where: str = "") -> Path:
    """The path from the root, links followed as far as they lead. `where` is what gave it, by default itself.

    Raises RequestError for a relative one where the current folder is gone.
    """
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise RequestError(
            "the current folder is gone", where=where or str(path), hint="Go to another (`cd`), or give the whole path."
        ) from error


def why_not_seen(path: Path) -> str:
    """Why a path can't be looked at, e.g. `Permission denied`; empty where there is something, and where there is
    nothing."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        return reason_of(error)
    return ""


def files_beside(text: str) -> list[str]:
    """What else could have been meant by the name of a file."""
    folder = os.path.dirname(text)
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder or "."))]
    except OSError:
        return []


def unwritable(path: Path, error: OSError) -> HarnessError:
    """What to tell of a file that can't be written: the disk's fault, or the request's."""
    return disk_fault(error) or RequestError(f"can't be written: {reason_of(error)}", where=str(path))


def reason_of(error: OSError | ValueError) -> str:
    """Why a file can't be used, e.g. `Permission denied`, without the path. A ValueError is what a NUL in it gives."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, that takes the place of `path` when all is written; of a link, the place of its target.

    What is neither a file nor a folder (a pipe, a device) is written to as it is. Raises OSError; the block's errors go
    through. In both cases the old file stands and nothing is left beside it.
    """
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if os.path.exists(target) and not os.path.isfile(target):
        yield target
        return
    unfinished = target.with_name(f".harness-{os.getpid()}.unfinished")
    try:
        yield unfinished
        if os.path.exists(target):
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

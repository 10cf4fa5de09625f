"""Folders that a submission has written to: walked, copied and removed, whatever they hold.

Such a folder may be nested thousands deep, so that its paths are longer than the kernel takes, and may hold pipes,
sockets, files that are mostly holes, and folders that may not be read. Nothing here recurses or joins paths: every name
is used in the open folder that it lies in, and links are never followed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MOST_DEPTH = 64
"""How deeply folders may be nested where they are walked, since each level takes two descriptors."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", 0)
_PIECE_BYTES = 1 << 20


class TooMuchError(Exception):
    """A folder holds more than it may. The text says what, after `it holds`."""


@dataclass(frozen=True)
class Bounds:
    """The most that folders may hold together."""

    size_bytes: int
    """The sum of what files say that they are long, or take on disk where that is more."""
    entries: int
    depth: int = MOST_DEPTH


class Tally:
    """Counts what is found. Raises TooMuchError as soon as it is beyond the bounds.

    A file of several names counts once, as it takes up the disk; with `every_name`, once for each, as it is copied.
    """

    def __init__(self, bounds: Bounds, *, every_name: bool = False) -> None:
        self._bounds, self._every_name = bounds, every_name
        self._size_bytes = self._entries = 0
        self._linked: set[tuple[int, int]] = set()

    def add(self, found: os.stat_result) -> None:
        self._entries += 1
        if self._entries > self._bounds.entries:
            raise TooMuchError(f"more than {self._bounds.entries} files")
        if not stat.S_ISREG(found.st_mode):
            return
        if found.st_nlink != 1 and not self._every_name:  # of several names, or of none any more
            if (found.st_dev, found.st_ino) in self._linked:
                return
            self._linked.add((found.st_dev, found.st_ino))
        self._size_bytes += max(found.st_size, found.st_blocks * 512)
        if self._size_bytes > self._bounds.size_bytes:
            raise TooMuchError(f"more than {self._bounds.size_bytes >> 20} MiB of files")

    def add_below(self, folder: Path) -> None:
        for entry in walk(folder, self._bounds.depth):
            self.add(entry.found)


class Entry(NamedTuple):
    """Something in a folder that is being walked."""

    name: str
    at: int
    """The descriptor of its folder, open until the walk goes on."""
    depth: int
    """1 for what lies in the uppermost folder."""
    found: os.stat_result
    """Of itself, where it is a link."""


def walk(top: Path, most_depth: int = MOST_DEPTH) -> Iterator[Entry]:
    """All that lies below a folder, each folder before what is in it. What vanishes meanwhile is passed over.

    Raises TooMuchError for folders nested deeper than that, and for one of our own that may not be read, since it
    could hold anything.
    """
    levels: list[tuple[int, Iterator[os.DirEntry[str]]]] = []
    try:
        levels.append(_opened(os.open(top, _FOLDER)))
    except PermissionError:
        raise TooMuchError("a folder that may not be read") from None
    except OSError:
        return
    try:
        while levels:
            at, names = levels[-1]
            each = next(names, None)
            if each is None:
                os.close(levels.pop()[0])
                continue
            try:
                found = each.stat(follow_symlinks=False)
            except OSError:
                continue
            yield Entry(each.name, at, len(levels), found)
            if not stat.S_ISDIR(found.st_mode):
                continue
            if len(levels) >= most_depth:
                raise TooMuchError(f"folders nested more than {most_depth} deep")
            try:
                levels.append(_opened(os.open(each.name, _FOLDER, dir_fd=at)))
            except PermissionError:
                if found.st_uid == os.geteuid():
                    raise TooMuchError("a folder that may not be read") from None
            except OSError:
                continue
    finally:
        for at, _ in levels:
            os.close(at)


def _opened(fd: int) -> tuple[int, Iterator[os.DirEntry[str]]]:
    try:
        return fd, os.scandir(fd)
    except BaseException:
        os.close(fd)
        raise


def copy_tree(source: Path, target: Path, bounds: Bounds) -> None:
    """Copy folders, plain files and links, with their times and without any rights to become somebody else; nothing
    else is copied, nor what can't be read. What is a hole in a file is one in its copy.

    `target` must not exist; it is empty where `source` is no folder. Raises TooMuchError for what is beyond the bounds,
    and then leaves no copy.
    """
    tally = Tally(bounds, every_name=True)
    target.mkdir(mode=0o755)
    copies = [_Copy(os.open(target, _FOLDER), None)]
    try:
        for entry in walk(source, bounds.depth):
            tally.add(entry.found)
            while len(copies) > entry.depth:
                copies.pop().finish()
            into = copies[-1].fd
            if stat.S_ISDIR(entry.found.st_mode):
                os.mkdir(entry.name, 0o755, dir_fd=into)
                copies.append(_Copy(os.open(entry.name, _FOLDER, dir_fd=into), entry.found))
            elif stat.S_ISLNK(entry.found.st_mode):
                os.symlink(os.readlink(entry.name, dir_fd=entry.at), entry.name, dir_fd=into)
            elif stat.S_ISREG(entry.found.st_mode):
                _copy_file(entry, into)
    except TooMuchError:
        remove_tree(target)
        raise
    finally:
        while copies:
            copies.pop().finish()


@dataclass(frozen=True)
class _Copy:
    """A folder or file being made, and what it is a copy of, whose times and rights it gets when it is whole."""

    fd: int
    of: os.stat_result | None

    def finish(self) -> None:
        try:
            if self.of is not None:
                least = 0o700 if stat.S_ISDIR(self.of.st_mode) else 0o400
                os.fchmod(self.fd, self.of.st_mode & 0o777 | least)
                os.utime(self.fd, ns=(self.of.st_atime_ns, self.of.st_mtime_ns))
        finally:
            os.close(self.fd)


def _copy_file(entry: Entry, into: int) -> None:
    try:
        source = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry.at)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        made = _Copy(os.open(entry.name, flags, 0o600, dir_fd=into), entry.found)
        try:
            os.ftruncate(made.fd, entry.found.st_size)
            for start, end in _data(source, entry.found.st_size):
                _copy_data(source, made.fd, start, end)
        finally:
            made.finish()
    finally:
        os.close(source)


def _data(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file's first `size` bytes are no holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError:  # ENXIO: a hole up to the end
            return
        if start < end:
            yield start, end


def _copy_data(source: int, target: int, at: int, end: int) -> None:
    while at < end:
        piece = os.pread(source, min(_PIECE_BYTES, end - at), at)
        if not piece:
            return
        written = 0
        while written < len(piece):
            written += os.pwrite(target, piece[written:], at + written)
        at += written


def remove_tree(path: Path, *, last: str | None = None) -> OSError | None:
    """Remove a folder with all that is in it; `last` is the name in it that goes when all else is gone, and stays when
    something can't be removed. Returns the first thing that could not be done; never raises OSError.

    Folders below are moved up into `path` itself and emptied there, so that none is deep when its turn comes. (`rm -rf`
    goes down that far too, but not into a folder that its owner has closed to himself.) Nothing on another file system
    is removed.
    """
    try:
        top = _open_for_removal(path, None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    try:
        problem = _empty(top, last)
        if problem is None:
            if last is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=top)
            os.rmdir(path)
        return problem
    except OSError as error:
        return error
    finally:
        os.close(top)


def _empty(top: int, kept: str | None) -> OSError | None:
    problem: OSError | None = None
    fresh_names = (f".{secrets.token_hex(8)}-{number}" for number in itertools.count())
    names = [name for name in os.listdir(top) if name != kept]
    while names:
        name = names.pop()
        try:
            if _unlinked(name, top):
                continue
            folder = _open_for_removal(name, top)
            try:
                for inner in os.listdir(folder):
                    if not _unlinked(inner, folder):
                        fresh = next(fresh_names)
                        _move(inner, folder, fresh, top)
                        names.append(fresh)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
        except OSError as error:
            problem = problem or error
    return problem


def _unlinked(name: str, at: int) -> bool:
    """Remove what is no folder; False for a folder."""
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            return False
        raise
    return True


def _move(name: str, at: int, fresh: str, top: int) -> None:
    try:
        os.rename(name, fresh, src_dir_fd=at, dst_dir_fd=top)
    except PermissionError:  # a folder that moves is written to, since it names the one above
        os.close(_open_for_removal(name, at))
        os.rename(name, fresh, src_dir_fd=at, dst_dir_fd=top)


def _open_for_removal(name: str | Path, at: int | None) -> int:
    """An open folder, which its owner may read and change from now on."""
    handle = os.open(name, _HANDLE | _FOLDER, dir_fd=at)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & 0o700 != 0o700:
            with contextlib.suppress(OSError):  # somebody else's, whom root need not ask
                os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
        return os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)

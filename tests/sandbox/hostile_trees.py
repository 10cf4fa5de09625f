"""What a submission may leave in a folder that it can write to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20


def deep(folder: Path, levels: int = 1100, name: str = "d" * 200) -> None:
    """Paths far longer than the kernel takes, more levels than Python recurses or descriptors can be had for."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def no_plain_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    here = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:  # a socket's path is short
        made.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)


def closed(folder: Path) -> None:
    """Folders that not even their owner may list, enter or change."""
    for mode in (0o000, 0o100, 0o300, 0o500):
        made = folder / f"{mode:o}"
        (made / "inner" / "most").mkdir(parents=True)
        (made / "inner" / "file").touch()
        for each in (made / "inner" / "most", made / "inner", made):
            each.chmod(mode)


def links(folder: Path) -> None:
    (folder / "up").symlink_to(folder.parent)
    (folder / "round").symlink_to("round")
    (folder / "gone").symlink_to("/nowhere")
    (folder / "sub").mkdir()
    (folder / "sub" / "to a folder").symlink_to(folder.parent / "outside")


def names(folder: Path) -> None:
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"n" * 255, b".lock", b".lock.d"):
        os.mkdir(os.path.join(os.fsencode(folder), name))
        os.mkdir(os.path.join(os.fsencode(folder), name, b".lock"))


def wide(folder: Path) -> None:
    for number in range(300):
        (folder / "sub" / f"{number}" / "same").mkdir(parents=True)
        (folder / "sub" / f"{number}" / "file").touch()


TREES: dict[str, Callable[[Path], None]] = {
    "deep": deep,
    "no plain files": no_plain_files,
    "closed": closed,
    "links": links,
    "names": names,
    "wide": wide,
}

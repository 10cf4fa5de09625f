"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import ExitStatus, RequestError
from harness.files import (
    absolute_path,
    replacing,
    unwritable,
    user_path,
    why_not_seen,
    write_in_place_of,
    write_new,
)

Write = Callable[[Path, bytes], None]
OLD, NEW = b"precious", b"x" * 100_000


@pytest.fixture
def full() -> Iterator[None]:
    """No file may grow beyond a page, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_old_file_stands_where_the_disk_is_full(tmp_path: Path, full: None) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(OLD)
    with pytest.raises(OSError, match="File too large"):
        write_in_place_of(path, NEW)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_no_part_of_a_new_file_is_left_where_the_disk_is_full(tmp_path: Path, full: None) -> None:
    with pytest.raises(OSError, match="File too large"):
        write_new(tmp_path / "kernel.py", NEW)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [write_in_place_of, write_new])
def test_a_new_file(tmp_path: Path, write: Write) -> None:
    write(tmp_path / "kernel.py", NEW)
    assert (tmp_path / "kernel.py").read_bytes() == NEW
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_is_there_is_not_new(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(OLD)
    with pytest.raises(FileExistsError):
        write_new(path, NEW)
    assert path.read_bytes() == OLD


def test_a_file_in_place_of_another_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(OLD)
    path.chmod(0o750)
    write_in_place_of(path, NEW)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (NEW, 0o750)


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(OLD)
    link.symlink_to(target)
    write_in_place_of(link, NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW


def test_a_device_and_a_pipe_stay_what_they_are(tmp_path: Path) -> None:
    with replacing(Path("/dev/null")) as where:
        assert where == Path("/dev/null")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_in_place_of(pipe, NEW)
    reader.join(10)
    assert read == [NEW]
    assert pipe.is_fifo()


def test_a_name_as_long_as_can_be(tmp_path: Path) -> None:
    write_in_place_of(tmp_path / ("a" * 255), NEW)


@pytest.mark.parametrize("name", [".", "file/below"])
def test_what_can_not_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(OSError, match=r"folder|directory|exists"):
        write_in_place_of(tmp_path / name, NEW)
    assert (tmp_path / "file").read_bytes() == OLD


def test_paths_as_they_are_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/a") == tmp_path / "a"
    assert user_path("a~b") == Path("a~b")
    with pytest.raises(RequestError, match="'~nobody-here' is nobody's home folder here") as caught:
        user_path("~nobody-here/a", "VARIABLE=~nobody-here/a")
    assert str(caught.value).startswith("VARIABLE=~nobody-here/a: ")
    with pytest.raises(RequestError, match="it holds a NUL"):
        user_path("a\0b")


def test_a_relative_path_where_the_current_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert absolute_path(tmp_path / "a") == tmp_path / "a"
    with pytest.raises(RequestError, match="the current folder is gone"):
        absolute_path(Path("a"))


def test_why_a_path_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert why_not_seen(tmp_path) == why_not_seen(tmp_path / "none") == why_not_seen(Path("/dev/null/none")) == ""
    assert why_not_seen(tmp_path / "loop") == "Too many levels of symbolic links"
    assert why_not_seen(tmp_path / ("x" * 300)) == "File name too long"
    assert why_not_seen(Path("a\0b"))


def test_what_is_told_of_a_file_that_can_not_be_written() -> None:
    missing = unwritable(Path("a"), FileNotFoundError(errno.ENOENT, "No such file or directory"))
    full = unwritable(Path("a"), OSError(errno.ENOSPC, "No space left on device", "a"))
    assert (missing.exit_status, full.exit_status) == (ExitStatus.BAD_REQUEST, ExitStatus.MACHINE_CANNOT)
    assert str(missing) == "a: can't be written: No such file or directory"

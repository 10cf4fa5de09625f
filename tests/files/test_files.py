"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.files import replacing, write_in_place_of, write_new

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

"""Scratch folders of dead processes go, those of live ones and of other programs stay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness.scratch import LOCK, PASSABLE, Scratch, sweep

PREFIX = "harness-run-"


@pytest.fixture(autouse=True)
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by_a_killed_process(folder: Path) -> Path:
    code = (
        "import os, signal, tempfile; tempfile.tempdir = os.environ['WHERE']\n"
        "from harness.scratch import Scratch\n"
        f"made = Scratch.make('{PREFIX}')\n"
        "(made.path / 'phase').mkdir(); (made.path / 'phase' / 'file').write_text('x')\n"
        "print(made.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "WHERE": str(folder)}
    )
    path = Path(done.stdout.strip())
    assert done.returncode == -9
    assert (path / "phase" / "file").exists()
    return path


def test_the_next_one_sweeps_what_a_killed_process_left(own_temp: Path) -> None:
    stale = left_by_a_killed_process(own_temp)
    made = Scratch.make(PREFIX, PASSABLE)
    assert not stale.exists()
    assert made.path.stat().st_mode & 0o777 == 0o711
    assert [path.name for path in own_temp.iterdir()] == [made.path.name]
    made.remove()
    made.remove()
    assert list(own_temp.iterdir()) == []


def test_a_live_process_keeps_its_folder(own_temp: Path) -> None:
    first, second = Scratch.make(PREFIX), Scratch.make(PREFIX)
    assert sweep(PREFIX) == []
    code = f"from harness.scratch import sweep; print(sweep('{PREFIX}'))"
    environment = {**os.environ, "TMPDIR": str(own_temp)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"
    assert first.path.exists()
    assert second.path.exists()


def test_folders_without_a_lock_stay_unless_they_are_old_and_empty(own_temp: Path) -> None:
    foreign, old, young = (own_temp / f"{PREFIX}{name}" for name in ("foreign", "old", "young"))
    for folder in (foreign, old, young):
        folder.mkdir()
    (foreign / "file").write_text("somebody's")
    hour_ago = time.time() - 3600
    for folder in (foreign, old):
        os.utime(folder, (hour_ago, hour_ago))
    assert sweep(PREFIX) == [old]
    assert foreign.exists()
    assert young.exists()


def test_links_are_not_followed(own_temp: Path) -> None:
    target = own_temp / "target"
    target.mkdir()
    (target / LOCK).write_text("")
    (target / "kept").write_text("x")
    (own_temp / f"{PREFIX}link").symlink_to(target)
    assert sweep(PREFIX) == []
    assert (target / "kept").exists()


def test_other_prefixes_are_left_alone(own_temp: Path) -> None:
    stale = left_by_a_killed_process(own_temp)
    Scratch.make("harness-board-").remove()
    assert stale.exists()


def deep_folder(top: Path) -> None:
    """Deeper than Python recurses, longer than a path may be."""
    at = os.open(top, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d" * 20, dir_fd=at)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


def test_a_deep_folder_goes_with_its_process_and_with_the_sweep(own_temp: Path) -> None:
    made = Scratch.make(PREFIX)
    deep_folder(made.path)
    made.remove()
    assert list(own_temp.iterdir()) == []
    stale = left_by_a_killed_process(own_temp)
    deep_folder(stale)
    assert sweep(PREFIX) == [stale]
    assert list(own_temp.iterdir()) == []


def test_the_lock_goes_last(own_temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Scratch.make(PREFIX)
    for name in ("a", "b", "~"):
        (made.path / name).touch()
    unlink = os.unlink

    def cut_off(name: str, *, dir_fd: int | None = None) -> None:
        if len(os.listdir(made.path)) == 2:
            raise KeyboardInterrupt
        unlink(name, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", cut_off)
        with pytest.raises(KeyboardInterrupt):
            made.remove()
    assert LOCK in os.listdir(made.path)
    os.close(made.fd)
    assert sweep(PREFIX) == [made.path]


def test_removing_twice_closes_nobody_elses_descriptor(own_temp: Path) -> None:
    made = Scratch.make(PREFIX)
    number = made.fd
    made.remove()
    reused = os.open(os.devnull, os.O_RDONLY)
    if reused != number:
        os.dup2(reused, number)
        os.close(reused)
    made.remove()
    os.fstat(number)
    os.close(number)


@pytest.mark.parametrize("lock", ["none", "a folder", "a link", "a pipe"])
def test_a_folder_that_lost_its_lock_goes_after_a_day(own_temp: Path, lock: str) -> None:
    young, old = own_temp / f"{PREFIX}young", own_temp / f"{PREFIX}old"
    for folder, hours in ((young, 23), (old, 25)):
        (folder / "sub").mkdir(parents=True)
        if lock == "a folder":
            (folder / LOCK / "sub").mkdir(parents=True)
        elif lock == "a link":
            (folder / LOCK).symlink_to("/dev/null")
        elif lock == "a pipe":
            os.mkfifo(folder / LOCK)
        os.utime(folder, (time.time() - 3600 * hours,) * 2)
    swept = sweep(PREFIX)
    # Nobody holds a lock on the pipe, so that both are known to be abandoned.
    assert sorted(swept) == sorted([young, old] if lock == "a pipe" else [old])
    assert [path for path in (young, old) if path.exists()] == ([] if lock == "a pipe" else [young])


def test_a_sweep_goes_on_past_what_cannot_be_removed(
    own_temp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for number in range(3):  # elsewhere, since each would sweep the one before
        (own_temp / f"{number}").mkdir()
        left = left_by_a_killed_process(own_temp / f"{number}")
        folders.append(left.rename(own_temp / left.name))
    (folders[1] / "stubborn").touch()
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        if name == "stubborn":
            raise PermissionError(1, "Operation not permitted", name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    assert sorted(sweep(PREFIX)) == sorted([folders[0], folders[2]])
    assert sorted(os.listdir(folders[1])) == [LOCK, "stubborn"]
    assert capsys.readouterr().err == f"warning: {folders[1]} can't be removed: Operation not permitted\n"
    assert sweep(PREFIX) == []
    assert capsys.readouterr().err == "", "it is told once"
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(own_temp))
    assert sweep(PREFIX) == [folders[1]]

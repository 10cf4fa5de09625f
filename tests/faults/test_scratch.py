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

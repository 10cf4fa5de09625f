"""What an export says when what it writes does not arrive, and what it leaves."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from harness.store.bulk import NewSubmission, open_bulk

Run = Callable[..., Result]
ROWS = 300


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store in it, whose export is longer than any buffer."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    moment = "2026-11-01T00:00:00.000000Z"
    with open_bulk() as writer:
        writer.add(
            [
                NewSubmission(f"o/{n}", "b", "ada", "a.py", f"{n} é" + os.urandom(500).hex(), moment, "[]")
                for n in range(ROWS)
            ]
        )
    return tmp_path


def export(
    *arguments: str, shell: str = "", environment: dict[str, str] | None = None, most_bytes: int = 0
) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own: `shell` says where its output goes, `most_bytes` how long files may be."""

    def limit() -> None:
        if most_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.run(
        ["bash", "-c", f'"$@" {shell}', "-", sys.executable, "-m", "harness.cli.main", "export", *arguments],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )


def test_standard_output_that_takes_nothing(filled: Path) -> None:
    full = export("-", shell=">/dev/full")
    assert full.returncode == 3
    assert full.stderr.startswith("harness: standard output can't be written: No space left on device\n")
    closed = export("-", shell=">&-")
    assert closed.returncode == 3
    assert closed.stderr.startswith("harness: -: standard output is closed\n")
    gone = export("-", shell="| head -c 10; exit ${PIPESTATUS[0]}")
    assert (gone.returncode, gone.stderr, len(gone.stdout)) == (141, "", 10)


def test_standard_output_in_ascii_is_the_same_json(filled: Path) -> None:
    plain = export("-", environment={"PYTHONIOENCODING": "utf-8"})
    escaped = export("-", environment={"PYTHONIOENCODING": "ascii"})
    assert escaped.stdout.isascii()
    assert not plain.stdout.isascii()
    assert [*map(json.loads, escaped.stdout.splitlines())] == [*map(json.loads, plain.stdout.splitlines())]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_full_device(filled: Path, harness: Run, kind: str) -> None:
    done = harness("export", "/dev/full", "--format", kind)
    assert done.exit_code == 3
    assert done.stderr == "/dev/full: can't be written: No space left on device"


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_a_file_that_can_not_be_written_whole_is_as_it_was(filled: Path, name: str) -> None:
    (filled / name).write_text("the old one")
    done = export(str(filled / name), most_bytes=100_000)
    assert done.returncode == 3
    assert done.stderr == f"harness: {filled / name}: can't be written: File too large\n"
    assert (filled / name).read_text() == "the old one"
    assert not list(filled.glob("*.unfinished")) + list(filled.glob(".*.unfinished"))


def test_from_one_store_to_another_by_a_pipe(filled: Path) -> None:
    other = f"| HARNESS_HOME={filled / 'other'} {sys.executable} -m harness.cli.main import -"
    done = export("-", shell=other)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"added {ROWS} submissions and ")
    refused = export("-", shell=f"{other} --format parquet")
    assert refused.returncode == 2
    assert "standard input takes JSON lines alone" in refused.stderr
    nothing = export("-", shell=f">/dev/null; {sys.executable} -m harness.cli.main import - <&-")
    assert nothing.returncode == 2
    assert "Traceback" not in nothing.stderr


@pytest.mark.parametrize("name", ["b.jsonl", "b.parquet", "b.jsonl.gz"])
def test_a_path_that_can_be_no_file_is_the_requests_fault(filled: Path, harness: Run, name: str) -> None:
    done = harness("export", str(filled / "no" / name))
    assert done.exit_code == 2
    assert done.stderr == (f"{filled / 'no' / name}: there is no folder {filled / 'no'}\nMake it, or name another.")
    (filled / "a_file").write_text("")
    done = harness("export", str(filled / "a_file" / name))
    assert (done.exit_code, f"{filled / 'a_file'} is no folder" in done.stderr) == (2, True)
    (filled / "link").symlink_to(filled / "no" / name)
    done = harness("export", str(filled / "link"), "--format", "parquet" if "parquet" in name else "jsonl")
    assert (done.exit_code, "can't be written: No such file" in done.stderr) == (2, True)
    (filled / name).mkdir()
    done = harness("export", str(filled / name))
    assert (done.exit_code, "can't be written: Is a directory" in done.stderr) == (2, True)
    empty = harness("export", "")
    assert empty.exit_code == 2
    assert "'' is no path" in empty.stderr


def test_nothing_is_not_written_over_something(filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = filled / "backup.jsonl"
    backup.write_text("the old one")
    for user in ("typo", "ada"):
        done = harness("export", str(backup), "--user", user, "--leaderboard", "softmax")
        assert done.exit_code == 2
        assert done.stderr == f"--user: {user} has no submissions on softmax"
    assert harness("export", str(filled / "new.jsonl"), "--user", "typo").exit_code == 2
    monkeypatch.setenv("HARNESS_HOME", str(filled / "elsewhere"))
    done = harness("export", str(backup))
    assert done.exit_code == 2
    assert "the store has no submissions to put in its place" in done.stderr
    assert backup.read_text() == "the old one"
    assert not (filled / "new.jsonl").exists()
    assert harness("export", str(filled / "new.jsonl")).exit_code == 0

"""Folders that are not there, may not be entered or lead in a circle; environments that make no sense; stores that are
none."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import NOBODY, Harness

KERNEL = "#!POPCORN leaderboard vectoradd\n\ndef custom_kernel(data): return data\n"
TOO_LONG = "x" * 300
LOOKUPS = (("boards",), ("history",), ("leaderboard", "cholesky"), ("show", "2"), ("diff", "1", "2"))
EVERY = (*LOOKUPS, ("restore", "1"), ("note", "1", "a remark"), ("init", "vectoradd"), ("submit", "kernel.py"))


@pytest.mark.parametrize("arguments", [*EVERY, ("doctor",), ("lint", "vectoradd")], ids=str)
def test_a_current_folder_that_is_gone(harness: Harness, place: Path, arguments: tuple[str, ...]) -> None:
    gone = place / "gone"
    gone.mkdir()
    told = harness(*arguments, folder=gone, folder_gone=True)
    assert told.status == 2
    assert told.words.startswith("harness: .: the current folder can't be used: No such file or directory\n")


@pytest.mark.parametrize(
    ("environment", "status", "words"),
    [
        ({"HARNESS_HOME": "~nobody-here/x"}, 2, "HARNESS_HOME=~nobody-here/x: '~nobody-here' is nobody's home folder"),
        ({"HARNESS_HOME": f"/tmp/{TOO_LONG}"}, 3, "the store's path is too long"),
        ({"HARNESS_HOME": None, "HOME": "/etc/passwd"}, 3, "the store's folder is not a folder"),
        ({"HARNESS_HOME": None, "HOME": "/proc/none"}, 0, ""),
        ({"HARNESS_HOME": None, "XDG_DATA_HOME": "/proc/none"}, 0, ""),
        ({"HARNESS_DATABASE_URL": f"sqlite:////tmp/{TOO_LONG}"}, 3, "the store's path is too long"),
        ({"HARNESS_DATABASE_URL": "sqlite:////tmp"}, 3, "the store is a folder"),
        ({"HARNESS_DATABASE_URL": "sqlite:////dev/null"}, 3, "the store is not a file"),
        ({"HARNESS_DATABASE_URL": "\udcff"}, 2, "this database is not supported"),
        ({"HARNESS_DATABASE_URL": "postgresql://\udcff@127.0.0.1:1/x"}, 2, "the URL holds what is no plain text"),
        ({"HARNESS_USER": "\udcff"}, 2, "is not UTF-8 text"),
        ({"HARNESS_USER": None, "LOGNAME": "\udcff"}, 2, "is not UTF-8 text"),
        ({"TMPDIR": "/proc/none"}, 0, ""),
        ({"COLUMNS": "0"}, 0, ""),
        ({"COLUMNS": "1"}, 0, ""),
        ({"COLUMNS": "²", "LINES": "²"}, 0, ""),
        ({"COLUMNS": "9" * 30}, 0, ""),
        ({"TERM": "dumb"}, 0, ""),
        ({"TERM": None, "PATH": None, "HOME": None}, 0, ""),
        ({"LC_ALL": "tr_TR.UTF-8", "TZ": "No/Where"}, 0, ""),
    ],
    ids=str,
)
def test_environments(harness: Harness, environment: dict[str, str | None], status: int, words: str) -> None:
    told = harness("history", environment=environment)
    assert told.status == status, told
    assert words in told.words
    for arguments in (("leaderboard", "cholesky"), ("show", "2"), ("diff", "1", "2")):
        again = harness(*arguments, environment=environment)
        assert again.status in (0, status, 2), again  # 2: a store that is none yet has no such submission
        assert "Errno" not in again.words
    assert harness("boards", environment=environment).status in (0, 2)


def test_folders_of_boards_that_are_none(harness: Harness, place: Path) -> None:
    boards = place / "boards"
    (boards / "folder.yaml").mkdir(parents=True)
    (boards / "pipe_inside").mkdir()
    for pipe in (boards / "pipe.yaml", boards / "pipe_inside" / "task.yml"):
        os.mkfifo(pipe)
    for loop in (boards / "loop", boards / "loop.yaml"):
        loop.symlink_to(loop.name)
    (boards / "endless.yaml").symlink_to("/dev/zero")
    (boards / "set.yml").write_text("problems:\n  - {directory: loop, name: round}\n")
    named = ["~nobody-here/x", TOO_LONG, "\udcff", str(boards / "loop"), str(boards / "set.yml"), str(boards)]
    told = harness("boards", environment={"HARNESS_LEADERBOARDS": ":".join(named)}, timeout_s=20)
    assert told.status == 0
    words = " ".join(told.words.split())
    assert "names ~nobody-here/x, which does not exist" in words
    assert f"names {TOO_LONG}, which can't be looked at: File name too long" in words
    assert "names \\xff, which does not exist" in words
    assert "/loop, which can't be looked at: Too many levels of symbolic links" in words
    assert "/set.yml, which is not a folder" in words
    assert b"vectoradd" in told.out
    for name in ("round", str(boards / "loop")):
        refused = harness("boards", name, environment={"HARNESS_LEADERBOARDS": str(boards)})
        assert refused.status == 2
        assert "can't be looked at: Too many levels of symbolic links" in refused.words


def test_boards_that_may_not_be_entered(harness: Harness, place: Path, shut: Path) -> None:
    boards = place / "boards"
    boards.mkdir()
    (boards / "closed").symlink_to(shut)
    environment = {"HARNESS_LEADERBOARDS": f"{shut}:{shut / 'board'}:{boards}"}
    told = harness("boards", environment=environment, powerless=True)
    assert told.status == 0
    words = " ".join(told.words.split())
    assert "shut/board, which can't be looked at: Permission denied" in words
    assert "shut: the folder can't be read: Permission denied" in words
    assert "the folder can't be entered: Permission denied" in words
    refused = harness("leaderboard", "closed", environment=environment, powerless=True)
    assert (refused.status, "can't be entered: Permission denied" in refused.words) == (2, True)
    for folder, what in ((shut, "the folder can't be entered"), (shut / "board", "can't be looked at")):
        refused = harness("boards", str(folder), powerless=True)
        assert refused.status == 2
        assert f"{what}: Permission denied" in refused.words


def test_files_in_a_folder_that_may_not_be_entered(harness: Harness, shut: Path) -> None:
    kernel = str(shut / "kernel.py")
    for arguments in (("submit", kernel), ("run", kernel), ("compile", kernel), ("diff", kernel, "1")):
        told = harness(*arguments, powerless=True)
        assert (told.status, "can't be read: Permission denied" in told.words) == (2, True), told
    for arguments in (
        ("restore", "1", "--to", kernel),
        ("restore", "1", "--to", kernel, "--force"),
        ("restore", "1", "--to", str(shut)),
        ("init", "vectoradd", "-o", kernel),
        ("init", "vectoradd", "-o", kernel, "--force"),
        ("init", "vectoradd", "-o", str(shut)),
        ("diff", "1", "2", "--html", str(shut / "page.html")),
    ):
        told = harness(*arguments, powerless=True)
        assert (told.status, "can't be written: Permission denied" in told.words) == (2, True), told
    assert sorted(path.name for path in shut.iterdir()) == ["board", "kernel.py"]


def test_a_store_that_may_not_be_seen(harness: Harness, shut: Path) -> None:
    for home in (shut, shut / "below"):
        for arguments in LOOKUPS[1:]:
            told = harness(*arguments, environment={"HARNESS_HOME": str(home)}, powerless=True)
            assert (told.status, "the store can't be opened" in told.words) == (3, True)
        told = harness("boards", environment={"HARNESS_HOME": str(home)}, powerless=True)
        assert (told.status, "the store is not readable" in told.words) == (0, True)


def test_paths_that_lead_nowhere(harness: Harness, place: Path) -> None:
    here = place / "here"
    (here / "loop.py").symlink_to("loop.py")
    (here / "dangling.py").symlink_to("none.py")
    os.mkfifo(here / "pipe.py")
    (here / "endless.py").symlink_to("/dev/zero")
    long = f"{TOO_LONG}.py"
    for file, words in (
        ("loop.py", "Too many levels of symbolic links"),
        (long, "File name too long"),
        (f"{TOO_LONG}/a.py", "File name too long"),
        ("none/a.py", "no such file"),
        ("pipe.py", "not a file"),
        ("endless.py", "not a file"),
        ("dangling.py", "no such file"),
    ):
        for command in ("submit", "run", "compile"):
            told = harness(command, file, timeout_s=20)
            assert (told.status, words in told.words) == (2, True), told
    for file, words in ((long, "File name too long"), ("loop.py", "Too many levels"), ("endless.py", "is too large")):
        told = harness("diff", file, "1", timeout_s=20)
        assert (told.status, words in told.words) == (2, True), told
    for arguments in (("restore", "1", "--to"), ("init", "vectoradd", "-o"), ("diff", "1", "2", "--html")):
        told = harness(*arguments, long)
        assert (told.status, "can't be written: File name too long" in told.words) == (2, True), told
    for file in ("loop.py", "dangling.py"):
        told = harness("restore", "1", "--to", file)
        assert (told.status, "the file exists and holds something else" in told.words) == (2, True), told
    assert harness("restore", "1", "--to", "/dev/null").status == 0
    assert harness("restore", "1", "--to", "/dev/full").status == 3
    assert harness("restore", "1", "--to", "endless.py", timeout_s=20).status == 0
    assert harness("restore", "1", "--to", "dangling.py", "--force").status == 0
    assert (here / "none.py").read_text().startswith("#!POPCORN")


def test_a_board_whose_name_no_file_can_have(harness: Harness) -> None:
    for arguments in (("boards",), ("leaderboard",), ("history",), ("lint",), ("init",), ("diff", "--leaderboard")):
        for name, words in ((TOO_LONG, "there is no board"), (f"./{TOO_LONG}", "File name too long")):
            told = harness(*arguments, name)
            assert (told.status, words in told.words) == (2, True), told
        told = harness(*arguments, "~nobody-here/board")
        assert (told.status, "'~nobody-here' is nobody's home folder here" in told.words) == (2, True), told


def newer(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()


def somebody_elses(file: Path) -> None:
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_circle(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def garbage(file: Path) -> None:
    file.write_bytes(b"no database " * 1000)


STORES = {
    newer: "written by a newer harness (schema 9999",
    somebody_elses: "holds something else than a harness store",
    cut: "the store is damaged",
    a_folder: "the store is a folder",
    a_pipe: "the store is not a file",
    a_circle: "links on the way to the store lead in a circle",
    garbage: "the store is not a SQLite database",
}


@pytest.mark.parametrize(("spoil", "words"), STORES.items(), ids=[each.__name__ for each in STORES])
def test_stores_that_are_none(
    harness: Harness, place: Path, sample: Path, spoil: Callable[[Path], None], words: str
) -> None:
    home = place / "spoilt"
    home.mkdir()
    shutil.copy(sample, home / "harness.sqlite3")
    spoil(home / "harness.sqlite3")
    environment = {"HARNESS_HOME": str(home)}
    for arguments in (("history",), ("show", "2"), ("note", "2", "a remark"), ("delete", "2", "--yes")):
        told = harness(*arguments, environment=environment, timeout_s=20)
        assert (told.status, words in told.words) == (3, True), told
    assert harness("boards", environment=environment).status == 0


def test_doctor_goes_on(harness: Harness, place: Path, sample: Path, shut: Path) -> None:
    """One row says what is the matter; the last one, torch, comes all the same."""
    spoilt = place / "spoilt"
    spoilt.mkdir()
    shutil.copy(sample, spoilt / "harness.sqlite3")
    newer(spoilt / "harness.sqlite3")
    loop = place / "loop"
    loop.symlink_to("loop")
    for environment, words in (
        ({"HARNESS_HOME": "~nobody-here/x", "HOME": str(shut)}, "'~nobody-here' is nobody's home folder here"),
        ({"HARNESS_HOME": str(spoilt), "HARNESS_LEADERBOARDS": f"{loop}:{shut}"}, "written by a newer harness"),
    ):
        told = harness("doctor", environment=environment, powerless=True, timeout_s=60)
        shown = " ".join(told.out.decode().split())
        assert told.status == 0, told
        assert words in shown
        assert "Nothing can be recorded here" in shown
        assert "Permission denied" in shown
        assert "torch" in shown
        assert "the probe failed" not in shown


def test_what_a_worker_may_not_see_is_found_as_the_user_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from harness.sandbox.discover import private_paths
    from harness.sandbox.errors import SandboxError
    from harness.sandbox.layout import follow

    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HARNESS_HOME", "~/store")
    monkeypatch.setenv("HARNESS_LEADERBOARDS", f"~/boards:{tmp_path}/loop")
    assert {f"{tmp_path}/{name}" for name in ("store", "boards", "loop")} < set(private_paths())
    with pytest.raises(SandboxError, match="too many symbolic links"):
        follow(f"{tmp_path}/loop")


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.doctor.records import store
    from harness.errors import MachineError
    from harness.sandbox.discover import private_paths
    from harness.store.location import home

    for name in ("HARNESS_HOME", "HARNESS_DATABASE_URL", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: NOBODY + 1)  # whom /etc/passwd does not know
    with pytest.raises(MachineError, match="no home folder to keep the store in"):
        home()
    (finding,) = store()
    assert finding.stops_recording
    assert all(path.startswith("/") for path in private_paths())

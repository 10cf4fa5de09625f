"""Trees that were made to be in the way are removed, measured and copied in bounds."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_trees import MIB, TREES, deep, no_plain_files
from sandbox_launch import HERE, make_launcher

from harness.sandbox import FolderWatcher, watch
from harness.trees import Bounds, Tally, TooMuchError, copy_tree, remove_tree

ROOMY = Bounds(64 * MIB, 10_000)
SPARSE_BYTES = 48 * MIB


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    return made


def sparse(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("kind", TREES)
def test_removed(tree: Path, kind: str) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "file").touch()
    TREES[kind](tree)
    assert remove_tree(tree) is None
    assert list(tree.parent.iterdir()) == [outside]
    assert (outside / "file").exists()


@pytest.mark.parametrize("kind", TREES)
def test_removed_by_a_user_without_rights(folder: Path, kind: str) -> None:
    launch = make_launcher("nobody", folder)
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from hostile_trees import TREES
from harness.trees import remove_tree
tree = Path({str(launch.make_folder("tree"))!r})
TREES[{kind!r}](tree)
print(remove_tree(tree), tree.exists())
"""
    run = subprocess.run([*launch.python, "-c", code], capture_output=True, text=True, env=launch.environment, cwd="/")
    assert run.stdout == "None False\n", run.stderr


def test_a_closed_folder_itself_is_removed(folder: Path) -> None:
    launch = make_launcher("nobody", folder)
    tree = launch.make_folder("tree")
    (tree / "file").touch()
    tree.chmod(0)
    code = f"from harness.trees import remove_tree; from pathlib import Path; print(remove_tree(Path({str(tree)!r})))"
    run = subprocess.run([*launch.python, "-c", code], capture_output=True, text=True, env=launch.environment, cwd="/")
    assert (run.stdout, tree.exists()) == ("None\n", False), run.stderr


def test_what_cannot_be_removed_is_told_and_all_else_goes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("last", "a", "stubborn", "z"):
        (tree / "sub" / name).mkdir(parents=True)
        (tree / name).touch()
    unlink = os.unlink

    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        if path == "stubborn" and stat.S_ISREG(os.stat(path, dir_fd=dir_fd).st_mode):
            raise PermissionError(1, "Operation not permitted", path)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    problem = remove_tree(tree, last="last")
    assert problem is not None
    assert problem.strerror == "Operation not permitted"
    assert sorted(os.listdir(tree)) == ["last", "stubborn"]


def test_a_link_in_a_folders_place_is_not_followed(tree: Path) -> None:
    (tree / "file").touch()
    link = tree.parent / "link"
    link.symlink_to(tree)
    assert remove_tree(link) is not None
    copy_tree(link, tree.parent / "copy", ROOMY)
    assert os.listdir(tree.parent / "copy") == []
    assert (tree / "file").exists()


def test_nothing_to_remove(tree: Path) -> None:
    assert remove_tree(tree / "gone") is None


def test_copied(tree: Path) -> None:
    (tree / "sub" / "empty").mkdir(parents=True)
    (tree / "sub" / "file").write_bytes(b"x" * (3 * MIB))
    (tree / "sub" / "program").write_text("y")
    (tree / "sub" / "program").chmod(0o4755)
    (tree / "link").symlink_to("sub/file")
    (tree / "sub" / "closed").mkdir()
    (tree / "sub" / "closed").chmod(0o500)
    no_plain_files(tree)
    for name in ("sub/file", "sub"):
        os.utime(tree / name, ns=(1_000_000_007, 2_000_000_009))
    copy = tree.parent / "copy"
    copy_tree(tree, copy, ROOMY)
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*")) == [
        "link", "sub", "sub/closed", "sub/empty", "sub/file", "sub/program",
    ]  # fmt: skip
    assert (copy / "sub" / "file").read_bytes() == (tree / "sub" / "file").read_bytes()
    assert os.readlink(copy / "link") == "sub/file"
    assert stat.S_IMODE((copy / "sub" / "program").stat().st_mode) == 0o755, "without the right to be somebody else"
    assert stat.S_IMODE((copy / "sub" / "closed").stat().st_mode) == 0o700
    assert [(copy / name).stat().st_mtime_ns for name in ("sub/file", "sub")] == [2_000_000_009] * 2


def test_a_hole_stays_a_hole(tree: Path) -> None:
    sparse(tree / "file", SPARSE_BYTES)
    with open(tree / "file", "r+b") as file:
        file.seek(SPARSE_BYTES // 2)
        file.write(b"in the middle")
    copy_tree(tree, tree.parent / "copy", ROOMY)
    copied = tree.parent / "copy" / "file"
    assert copied.stat().st_blocks * 512 < MIB
    assert copied.read_bytes() == (tree / "file").read_bytes()


def too_long(tree: Path) -> None:
    sparse(tree / "a", SPARSE_BYTES)
    sparse(tree / "b", SPARSE_BYTES)


def too_many_names(tree: Path) -> None:
    sparse(tree / "file", SPARSE_BYTES)
    os.link(tree / "file", tree / "again")


def too_many(tree: Path) -> None:
    for number in range(101):
        (tree / f"{number}").touch()


@pytest.mark.parametrize(
    ("fill", "bounds", "words"),
    [
        (too_long, ROOMY, "more than 64 MiB of files"),
        (too_many_names, ROOMY, "more than 64 MiB of files"),
        (too_many, Bounds(MIB, 100), "more than 100 files"),
        (deep, ROOMY, "folders nested more than 64 deep"),
    ],
)
def test_what_is_too_much_is_not_copied(tree: Path, fill: Callable[[Path], None], bounds: Bounds, words: str) -> None:
    fill(tree)
    with pytest.raises(TooMuchError, match=words):
        copy_tree(tree, tree.parent / "copy", bounds)
    assert list(tree.parent.iterdir()) == [tree]
    remove_tree(tree)  # pytest's own removal recurses


def test_a_file_of_two_names_takes_the_disk_once(tree: Path) -> None:
    too_many_names(tree)
    Tally(ROOMY).add_below(tree)


def test_a_folder_closed_to_its_owner_is_too_much(folder: Path) -> None:
    launch = make_launcher("nobody", folder)
    tree = launch.make_folder("tree")
    code = f"""
import os
from pathlib import Path
from harness.trees import Bounds, Tally, TooMuchError
tree = Path({str(tree)!r})
for mode, place in ((0o300, tree / "sub"), (0o300, tree)):
    place.mkdir(exist_ok=True)
    place.chmod(mode)
    try:
        Tally(Bounds(1, 10)).add_below(tree)
    except TooMuchError as error:
        print(error)
    place.chmod(0o700)
"""
    run = subprocess.run([*launch.python, "-c", code], capture_output=True, text=True, env=launch.environment, cwd="/")
    assert run.stdout == "a folder that may not be read\n" * 2, run.stderr


HOGS = {
    "long": ("import os; os.truncate(os.open('f', os.O_CREAT | os.O_WRONLY), 3 << 20)", "2 MiB of files"),
    "reserved": (
        "import ctypes, os; f = os.open('f', os.O_CREAT | os.O_WRONLY);"
        "ctypes.CDLL(None).fallocate(f, 1, ctypes.c_long(0), ctypes.c_long(3 << 20))",
        "2 MiB of files",
    ),
    "removed": (
        "import os; f = open('f', 'wb'); f.write(bytes(3 << 20)); f.flush(); os.unlink('f')",
        "2 MiB of files",
    ),
    "many": ("[open(str(n), 'w').close() for n in range(110)]", "more than 100 files"),
    "deep": ("import os\nfor n in range(70): os.mkdir('d'); os.chdir('d')", "nested more than 64 deep"),
}


@pytest.mark.parametrize("kind", HOGS)
def test_hogs_meet_the_watcher(tree: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_FILES", 100)
    code, words = HOGS[kind]
    waits = f"{code}\nprint(flush=True)\nimport time; time.sleep(60)"
    # The watched process is a guard: the files are those of what is below it.
    guard = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    worker = subprocess.Popen([sys.executable, "-c", guard, waits], cwd=tree, stdout=subprocess.PIPE)
    with worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        excess = FolderWatcher(worker.pid, [tree], 2 * MIB).check()
        assert excess is not None
        assert excess.startswith("wrote ")
        assert words in excess
        assert worker.wait(10) == -signal.SIGKILL


def test_a_look_is_not_taken_at_every_check(tree: Path) -> None:
    worker = subprocess.Popen(["/bin/sleep", "60"])
    try:
        watcher = FolderWatcher(worker.pid, [tree], 64 * MIB)
        assert watcher.check() is None
        sparse(tree / "file", 65 * MIB)  # takes nothing, so that the disk does not tell of it
        assert watcher.check() is None
        watcher._looked_at -= max(1.0, 10 * watcher._took_s)
        assert watcher.check() == "wrote more than 64 MiB of files"
    finally:
        worker.kill()
        worker.wait()


def test_a_fast_hog_is_seen_by_what_the_disk_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name, subprocess.Popen(["/bin/sleep", "60"]) as worker:
        folder = Path(name)
        try:
            watcher = FolderWatcher(worker.pid, [folder], MIB, interval_s=60)
            assert watcher.check() is None
            (folder / "file").write_bytes(bytes(2 * MIB))
            free = watcher._free_bytes
            monkeypatch.setattr(watcher, "_free", lambda: free - 2 * MIB)  # others write and remove meanwhile
            assert watcher.check() == "wrote more than 1 MiB of files"
        finally:
            worker.kill()

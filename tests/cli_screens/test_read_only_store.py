"""A store that may be read and not written, as on a read-only mount or in another user's folder."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result

from harness.doctor.records import store as look_at_store
from harness.errors import MachineError
from harness.store import Store, open_reader
from harness.store.database import read_only_sqlite

NOBODY = 65534


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Nothing in the folder can be written within: its modes say so, and root, who heeds none, is nobody."""
    paths = [folder, *folder.iterdir()]
    before = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)
        for path, mode in before.items():
            path.chmod(mode)


@pytest.fixture
def shared(sample: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """HARNESS_HOME with the sample store in it, in a folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="harness-read-only-"))
    folder.chmod(0o755)
    shutil.copy(sample, folder / "harness.sqlite3")
    monkeypatch.setenv("HARNESS_HOME", str(folder))
    monkeypatch.setenv("HARNESS_USER", "ada")
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    with open_reader() as reader:  # everything that reading imports, before the rights are gone
        assert reader.last_submission_id() == 5
    for left in folder.glob("*-shm"):
        left.unlink()
    yield folder
    shutil.rmtree(folder)


def test_it_is_in_wal_mode(shared: Path) -> None:
    connection = sqlite3.connect(shared / "harness.sqlite3")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_it_is_read_as_it_stands(shared: Path, harness: Callable[..., Result]) -> None:
    writable = harness("history").output
    for left in (*shared.glob("*-shm"), *shared.glob("*-wal")):
        left.unlink()
    with without_rights(shared):
        assert harness("history").output == writable
        with open_reader() as reader:
            assert reader.last_submission_id() == 5
    assert [path.name for path in shared.iterdir()] == ["harness.sqlite3"]


def test_nothing_is_written_to_it(shared: Path) -> None:
    with without_rights(shared), pytest.raises(MachineError, match=r"read-only|opened"):
        Store.open().add_submission("cholesky", "ada", "a.py", "x")


def test_doctor_says_that_nothing_can_be_recorded(shared: Path) -> None:
    with without_rights(shared):
        (finding,) = look_at_store()
    assert (finding.level.value, finding.blocks, finding.stops_recording) == ("problem", False, True)
    assert finding.text.endswith("is read-only: results can't be recorded")


def test_a_log_that_can_not_be_read_in_is_not_left_out(shared: Path) -> None:
    """What was written and not yet moved into the file would be missing: better no answer than an old one."""
    store = shared / "harness.sqlite3"
    writer = sqlite3.connect(store)
    writer.execute("UPDATE submissions SET user_name = 'eve' WHERE id = 1")
    writer.commit()
    log = (shared / "harness.sqlite3-wal").read_bytes()
    assert log
    copy = shared / "copy"
    copy.mkdir(mode=0o755)
    shutil.copy(store, copy / "harness.sqlite3")
    (copy / "harness.sqlite3-wal").write_bytes(log)
    writer.close()
    with without_rights(copy), pytest.raises(sqlite3.OperationalError):
        read_only_sqlite(copy / "harness.sqlite3").execute("SELECT count(*) FROM submissions").fetchone()

"""Imports that the machine or the user ends in the middle: what is in is told, and the same command goes on."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from harness.store import open_reader
from harness.store.bulk import NewSubmission, open_bulk
from harness.store.database import Database, connect
from harness.store.location import location

Run = Callable[..., Result]
ROWS, BATCH = 300, 30
GOES_ON = "What was added stays, and the same command goes on from there: nothing is added twice."
BATCHES = f"""
import sys
from harness.cli.main import main
from harness.store import writer_thread
from harness.transfer import import_

writer_thread.LONGEST_TRANSACTION_S = 0.0
import_.BATCH_ROWS = {BATCH}
main(sys.argv[1:])
"""
"""The command, with a transaction for every batch of a small file."""
STOPPED = BATCHES.replace(
    "main(sys",
    """
import os, signal
from harness.store.batch import Batch

writing, batches = Batch.write, 0

def write(self, added):
    global batches
    writing(self, added)
    batches += 1
    if batches == 3:
        os.kill(os.getpid(), signal.SIGINT)

Batch.write = write
main(sys""",
)
"""The same, with the user's interrupt while the third is written."""


def command(*arguments: str, code: str = BATCHES, most_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a shell's background job, and so this one, has ignored
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, preexec_fn=limit, timeout=60
    )


@pytest.fixture
def exported(home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The export of another store, with long texts."""
    with monkeypatch.context() as patch:
        patch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{home}/other.sqlite3")
        moment = "2026-11-01T00:00:00.000000Z"
        with open_bulk() as writer:
            for n in range(ROWS):
                text = f"# {n}\n" + "#" * 10_000
                writer.add([NewSubmission(f"o/{n}", "b", "ada", "a.py", text, moment, "[]")])
        assert harness("export", home / "whole.jsonl").exit_code == 0
    return home / "whole.jsonl"


def count() -> int:
    db = connect(location())
    try:
        return int(db.value("SELECT count(*) FROM submissions"))
    finally:
        db.close()


def goes_on(harness: Run, exported: Path, added: int) -> None:
    again = json.loads(harness("import", exported, "--json").stdout)
    assert (again["submissions_added"], again["known"], again["bad"]) == (ROWS - added, added, 0)


def test_a_disk_that_is_full(exported: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own: the file may not grow beyond what some batches take."""
    monkeypatch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{exported.parent}/small.sqlite3")
    with open_reader():
        pass
    done = command("import", str(exported), most_bytes=1_500_000)
    assert (done.returncode, done.stdout) == (3, "")
    added = count()
    assert 0 < added < ROWS
    assert added % BATCH == 0
    first, *hints = done.stderr.splitlines()
    assert f"; up to there: added {added} submissions and 0 evaluations in " in first
    assert hints[-1] == GOES_ON
    told = command("import", str(exported), "--json", most_bytes=1_500_000)
    document = json.loads(told.stdout)
    assert told.returncode == 3
    assert document["submissions_added"] == count() - added
    assert document["error"]["code"] == "machine_cannot"
    assert "; up to there: added " in document["error"]["what"]
    assert document["error"]["hint"].endswith(GOES_ON)
    assert told.stderr.splitlines()[-1] == GOES_ON
    goes_on(harness, exported, count())


def fails_at(monkeypatch: pytest.MonkeyPatch, batch: int, error: Callable[[Database], object]) -> None:
    """Let that batch of a transaction each fail."""
    from harness.store import writer_thread
    from harness.transfer import import_

    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 0.0)
    monkeypatch.setattr(import_, "BATCH_ROWS", BATCH)
    writing, batches = Database.insert, 0

    def insert(self: Database, table: str, columns: list[str], rows: list[object]) -> None:
        nonlocal batches
        writing(self, table, columns, rows)  # type: ignore[arg-type]
        if table == "submissions":
            batches += 1
            if batches == batch:
                error(self)

    monkeypatch.setattr(Database, "insert", insert)


def test_a_database_that_is_gone(exported: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the transaction under way had written is not counted."""

    def is_gone(db: Database) -> None:
        if db.postgres:
            db.run("SELECT pg_terminate_backend(pg_backend_pid())")
        else:
            db.run("PRAGMA query_only = on")
            db.run("DELETE FROM submissions")

    with monkeypatch.context() as patch:
        fails_at(patch, 4, is_gone)
        done = harness("import", exported, "--json")
    assert done.exit_code == 3
    document = json.loads(done.stdout)
    assert document["submissions_added"] == count() == 3 * BATCH
    assert f"; up to there: added {3 * BATCH} submissions" in document["error"]["what"]
    goes_on(harness, exported, 3 * BATCH)


def test_a_user_who_stops_it(exported: Path, harness: Run) -> None:
    """Whatever is being done just then: it ends with what is whole, and says so."""
    done = command("import", str(exported), code=STOPPED)
    assert (done.returncode, done.stdout) == (130, "")
    added = count()
    assert 3 * BATCH <= added <= ROWS
    told, _, last = done.stderr.splitlines()
    assert told.startswith(f"{exported}: added {added} submissions and 0 evaluations in ")
    assert told.endswith(GOES_ON)
    assert last == "harness: stopped by the user"
    goes_on(harness, exported, added)

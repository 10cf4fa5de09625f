"""What holds of a bulk write, whose thread writes several batches in a transaction while the next are made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import MachineError
from harness.store import Store, open_reader, standings, writer_thread
from harness.store.bulk import BulkWriter, NewSubmission, open_bulk
from harness.store.database import Database, connect
from harness.store.location import location
from harness.store.seen import Seen

Opener = Callable[[], Database]
MOMENT = "2026-11-01T00:00:00.000000Z"
TRICKLE = """
import sys
from harness.store import writer_thread
from harness.store.bulk import NewSubmission, open_bulk

writer_thread.LONGEST_TRANSACTION_S = 0.05
with open_bulk() as writer:
    for n in range(10**9):
        writer.add([NewSubmission(f"o/{n}/{k}", f"b{k}", "ada", "a.py", f"# {n} {k}", sys.argv[1], "[]")
                    for k in range(3)])
        print(n, flush=True)
"""


def made(*numbers: int, board: str = "b") -> list[NewSubmission]:
    return [NewSubmission(f"o/{n}", board, "ada", "a.py", f"# {n}", MOMENT, "[]") for n in numbers]


def count(db: Database) -> int:
    return int(db.value("SELECT count(*) FROM submissions"))


def test_more_rows_than_a_statement_takes(home: Path, raw: Opener) -> None:
    with open_bulk() as writer:
        writer.add(made(*range(1203)))
        writer.add(made(*range(1200, 1207)))
    assert (writer.added.submissions, writer.added.known) == (1207, 3)
    ids = raw().tuples("SELECT id, source_sha256 FROM submissions ORDER BY id")
    assert [row[0] for row in ids] == list(range(1, 1208))
    assert len({row[1] for row in ids}) == raw().value("SELECT count(*) FROM sources") == 1207


def test_ids_after_a_bulk_write_are_new(home: Path) -> None:
    with open_bulk() as writer:
        writer.add(made(1, 2, 3))
    with Store.open() as store:
        assert store.add_submission("b", "ada", "a.py", "pass") == 4


def test_a_batch_is_written_although_none_follows(home: Path, raw: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """And others may write meanwhile: a reader of a slow file keeps no lock."""
    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 0.05)
    with open_bulk() as writer:
        writer.add(made(1, 2))
        deadline = time.monotonic() + 20
        while count(raw()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Store.open() as store:
            store.add_submission("b", "ada", "a.py", "pass")
        writer.add(made(3))
    assert count(raw()) == 4


def test_another_writer_gets_its_turn(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is always a batch to write, and nothing new in it to pause for."""
    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 0.3)
    Store.open().close()

    def add() -> None:
        with Store.open() as store:
            store.add_submission("b", "ada", "a.py", "pass")

    other = threading.Thread(target=add)
    with open_bulk() as writer:
        writer.add(made(*range(1000)))
        other.start()
        deadline = time.monotonic() + 20
        while other.is_alive():
            assert time.monotonic() < deadline
            writer.add(made(*range(1000)))
    other.join()


def test_readers_see_whole_transactions(home: Path, raw: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 60)
    with open_bulk() as writer:
        for n in range(5):
            writer.add(made(n))
        assert count(raw()) == 0
    assert count(raw()) == 5


@pytest.mark.parametrize("later", [True, False])
def test_an_error_of_a_batch_is_told(home: Path, raw: Opener, monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
    """With the next batch or at the end; what was committed before stays, what was not is rolled back."""
    with open_bulk() as writer:
        writer.add(made(1))
    writing = Database.insert

    def fails(self: Database, table: str, columns: object, rows: list[object]) -> None:
        if table == "submissions" and len(rows) == 2:
            self.run("SELECT no_such_function()")
        writing(self, table, columns, rows)  # type: ignore[arg-type]

    def adds(writer: BulkWriter) -> None:
        writer.add(made(2))
        writer.add(made(3, 4))
        for n in range(5, 50) if later else ():
            writer.add(made(n))

    with monkeypatch.context() as patched:
        patched.setattr(Database, "insert", fails)
        with pytest.raises(MachineError, match=r"no such function|no such database"), open_bulk() as writer:
            adds(writer)
    db = raw()
    assert count(db) == 1
    with db.transaction():
        assert standings.differences(db) == []
    with open_bulk() as writer:  # and it goes on from there
        writer.add(made(2, 3, 4))
    assert count(db) == 4


def test_an_interruption_keeps_what_was_added(home: Path, raw: Opener) -> None:
    def interrupted(writer: BulkWriter) -> None:
        writer.add(made(1, 2))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_bulk() as writer:
        interrupted(writer)
    assert count(raw()) == 2


def test_the_switch_interval_is_given_back(home: Path) -> None:
    before = sys.getswitchinterval()
    with open_bulk() as writer:
        writer.add(made(1))
    assert sys.getswitchinterval() == before


def test_a_killed_bulk_write_leaves_whole_batches(home: Path, raw: Opener) -> None:
    process = subprocess.Popen([sys.executable, "-c", TRICKLE, MOMENT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        while int(process.stdout.readline()) < 300:
            pass
        db = raw()
        while not count(db):
            process.stdout.readline()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    there = count(db)
    assert there > 0
    assert there % 3 == 0
    assert db.value("SELECT count(*) FROM sources") == there
    with open_bulk() as writer:
        writer.add([NewSubmission(f"o/{n}/{k}", f"b{k}", "ada", "a.py", f"# {n} {k}", MOMENT, "[]")
                    for n in range(300) for k in range(3)])  # fmt: skip
    assert count(db) == max(there, 900)


def test_what_a_user_has_is_found_board_by_board(home: Path) -> None:
    with open_bulk() as writer:
        for n, (board, user, day) in enumerate([("c", "ada", 3), ("a", "ada", 5), ("b", "eve", 9), ("a", "ada", 4)]):
            moment = f"2026-11-0{day}T00:00:00.000000Z"
            writer.add([NewSubmission(f"o/{n}", board, user, "a.py", f"# {n}", moment, "[]")])
    with open_reader() as reader:
        assert [row.id for row in reader.history("ada")] == [1, 4, 2]
        latest = reader.latest_submission("ada")
        assert latest is not None
        assert (latest.id, latest.previous) == (2, 4)
        assert reader.history("nobody") == []
        assert reader.latest_submission("nobody") is None


def test_what_another_adds_meanwhile_is_known(home: Path, raw: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a store that was empty, where a bulk write asks for little."""
    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 0.0)
    with open_bulk() as writer:
        writer.add(made(1, 2, 1))
        writer.add(made(2, 3))
        while count(raw()) < 3:
            time.sleep(0.01)
        with open_bulk() as another:
            another.add(made(3, 4, 5))
        with Store.open() as store:
            store.add_submission("b", "ada", "a.py", "# 6")
        writer.add(made(4, 5, 6, 7))
        writer.add(made(7, 8))
    assert (writer.added.submissions, writer.added.known) == (6, 5)
    db = raw()
    assert [row[0] for row in db.tuples("SELECT origin FROM submissions ORDER BY id")] == [
        *(f"o/{n}" for n in range(1, 6)), None, "o/6", "o/7", "o/8"
    ]  # fmt: skip
    assert db.value("SELECT count(*) FROM sources") == 8


def test_origins_that_are_told_exactly(home: Path) -> None:
    with open_bulk() as writer:
        writer.add(made(9000))
    db = connect(location())
    seen = Seen(exactly=3001)
    with db.transaction():
        seen.read(db)
        assert seen.is_all(db)
    assert seen.origins_again(["o/9000"]) == ["o/9000"]
    assert seen.origins_again(f"o/{number}" for number in range(3000)) == []
    assert seen.origins_again(f"o/{number}" for number in range(0, 3000, 100)) == [
        f"o/{n}" for n in range(0, 3000, 100)
    ]
    assert seen.origins_again(["another", "o/1"]) == ["another", "o/1"]  # more than were announced may be anything
    db.close()

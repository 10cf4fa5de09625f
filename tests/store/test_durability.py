"""What holds when processes die, meet, or find a store they can't use."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.boards.board import GridName
from harness.errors import HarnessError, MachineError, RequestError
from harness.evaluation.record import (
    Device,
    EvaluationHeader,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Protocol,
    ReasonCode,
    Status,
)
from harness.store import Store, best_score_ns, open_reader, queries
from harness.store.database import Database
from harness.store.process import ProcessIdentity, is_gone, this_process

Opener = Callable[[], Database]
HEADER = EvaluationHeader(
    Mode.TEST,
    Protocol.SEALED,
    GridName.CPU,
    Device("cpu", "x"),
    IsolationLevel.NONE,
    False,
    1,
    {},
    "",
    1,
)
WRITER = """
import sys
from harness.boards.board import GridName
from harness.evaluation.record import *
from harness.store import Store

header = EvaluationHeader(Mode.TEST, Protocol.SEALED, GridName.CPU, Device("cpu", "x"), IsolationLevel.NONE, False, 1,
                          {}, "", 1000)
with Store.open() as store:
    submission = store.add_submission("board", sys.argv[1], "a.py", "pass")
    evaluation = store.begin_evaluation(submission, header)
    print(submission, flush=True)
    for index in range(int(sys.argv[2])):
        store.add_case(evaluation, CaseResult(CaseKind.TEST, index, {"n": index}, Status.PASSED))
        print(index, flush=True)
    store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
"""


def writer(user: str, cases: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, user, str(cases)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
def test_killed_writer_leaves_its_finished_cases(home: Path, raw: Opener, reap: bool) -> None:
    process = writer("ada", 100_000)
    assert process.stdout is not None
    submission = int(process.stdout.readline())
    for _ in range(5):
        seen = int(process.stdout.readline())
    with open_reader() as reader:
        (running,) = reader.evaluations(submission)
    assert running.outcome.status is Status.RUNNING  # its process lives
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if reap else os.WNOWAIT))
    seen = max([seen, *map(int, process.stdout.read().split("\n")[:-1])])
    with open_reader() as reader:
        (cut,) = reader.evaluations(submission)
    assert cut.outcome.status is Status.INTERRUPTED
    assert cut.outcome.reason is not None
    assert cut.outcome.reason.code is ReasonCode.INTERRUPTED
    assert [case.index for case in cut.cases] == list(range(len(cut.cases)))
    assert len(cut.cases) >= seen + 1
    db = raw()
    if not db.postgres:
        assert db.value("PRAGMA integrity_check") == "ok"
    process.wait()


def test_a_writer_also_closes_the_books_of_the_dead(home: Path, raw: Opener) -> None:
    process = writer("ada", 100_000)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    Store.open().close()
    assert raw().tuples("SELECT status FROM evaluations") == [("interrupted",)]


def test_an_evaluation_that_was_given_up_too_early_may_still_finish(home: Path, raw: Opener) -> None:
    """Two hosts of one name may share a database; the process that does the work has the last word."""
    with Store.open() as store:
        evaluation = store.begin_evaluation(store.add_submission("b", "ada", "a.py", "pass"), HEADER)
        assert raw().run(queries.MARK_INTERRUPTED, {"id": evaluation, "message": "gone"}) == 1
        store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    with open_reader() as reader:
        row = reader.evaluation(evaluation)
    assert row is not None
    assert (row.outcome.status, row.outcome.reason) == (Status.PASSED, None)


def test_writers_that_meet_on_a_new_store(home: Path) -> None:
    processes = [writer(user, 20) for user in ("ada", "bob", "eve")]
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    with open_reader() as reader:
        for user in ("ada", "bob", "eve"):
            (row,) = reader.history(user)
            assert row.status is Status.PASSED
            assert len(reader.evaluations(row.id)[0].cases) == 20


def test_nothing_stays_open_between_calls(sqlite_home: Path) -> None:
    """A worker forked from the supervisor must not inherit the store."""
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
        targets = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    assert not [target for target in targets if "harness.sqlite3" in target]


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_a_store_that_is_not_there_reads_as_empty(home: Path) -> None:
    with open_reader() as reader:
        assert reader.submission(1) is None
        assert reader.history("ada") == []
        assert reader.entries("cholesky") == []
        assert reader.last_submission_id() is None
    assert best_score_ns("cholesky", "ada") is None
    assert list(home.iterdir()) == []


def both_fail(error: type[HarnessError], match: str) -> None:
    with pytest.raises(error, match=match), open_reader():
        pass
    with pytest.raises(error, match=match):
        Store.open()


def test_a_file_that_is_no_database(sqlite_home: Path) -> None:
    file = sqlite_home / "harness.sqlite3"
    file.write_text("not a database, but something that somebody may want to keep\n" * 50)
    before = file.read_bytes()
    both_fail(MachineError, "not a SQLite database")
    assert file.read_bytes() == before


def test_a_damaged_database(sqlite_home: Path) -> None:
    with Store.open() as store:
        for number in range(50):
            store.add_submission("b", "ada", "a.py", f"# {number}\n" * 100)
    file = sqlite_home / "harness.sqlite3"
    content = bytearray(file.read_bytes())
    content[100:4096] = b"\xff" * (4096 - 100)  # the page that says what tables there are
    file.write_bytes(content)
    both_fail(MachineError, "damaged")
    assert file.read_bytes() == bytes(content)


def test_somebody_elses_database(sqlite_home: Path) -> None:
    connection = sqlite3.connect(sqlite_home / "harness.sqlite3")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = (sqlite_home / "harness.sqlite3").read_bytes()
    both_fail(MachineError, "something else than a harness store")
    assert (sqlite_home / "harness.sqlite3").read_bytes() == before


def test_a_newer_store_is_left_alone(home: Path, raw: Opener) -> None:
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
    raw().run("UPDATE alembic_version SET version_num = '9999'")
    both_fail(MachineError, "written by a newer harness .schema 9999")


def test_an_empty_file_becomes_a_store(sqlite_home: Path) -> None:
    (sqlite_home / "harness.sqlite3").touch()
    with open_reader() as reader:
        assert reader.leaderboards() == []
    with Store.open() as store:
        assert store.add_submission("b", "ada", "a.py", "pass") == 1


def test_a_home_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(MachineError, match="not a folder"):
        Store.open()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user who may not write")
def test_a_store_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        url = f"sqlite:///{folder}/harness.sqlite3"
        Store.open(url).close()
        before = Path(folder, "harness.sqlite3").read_bytes()
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            try:
                Store.open(url)
            except MachineError as error:
                os._exit(0 if "read-only" in str(error) or "can't be opened" in str(error) else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert Path(folder, "harness.sqlite3").read_bytes() == before


@pytest.mark.parametrize("url", ["mysql://ada:secret@host/db", "harness.sqlite3", "sqlite:///", "sqlite://"])
def test_databases_that_are_not_supported(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", url)
    with pytest.raises(RequestError, match="not supported") as caught:
        Store.open()
    assert "secret" not in str(caught.value)


def test_a_database_named_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{tmp_path}/a b%20?.sqlite3")
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
    with open_reader() as reader:
        assert reader.last_submission_id() == 1
    assert (tmp_path / "a b%20?.sqlite3").is_file()


def test_a_source_that_is_not_utf8(home: Path) -> None:
    with Store.open() as store, pytest.raises(RequestError, match="not UTF-8"):
        store.add_submission("b", "ada", "a.py", "\udc80")


def test_who_is_gone() -> None:
    me = this_process()
    assert not is_gone(me)
    assert is_gone(ProcessIdentity(me.host, me.pid, me.start + "1"))  # the id now belongs to another
    assert not is_gone(ProcessIdentity("another host", 1, ""))
    boot, namespace, ticks = me.start.split("/")
    assert is_gone(ProcessIdentity(me.host, me.pid, f"another boot/{namespace}/{ticks}"))
    assert not is_gone(ProcessIdentity(me.host, me.pid, f"{boot}/another container/1"))

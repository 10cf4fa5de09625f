"""What only a server can do to a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from postgres_server import NoServerError, PostgresServer
from test_durability import HEADER
from test_ranked_reads import add

from harness.errors import MachineError, RequestError
from harness.evaluation.record import CaseKind, CaseResult, EvaluationOutcome, IsolationLevel, Mode, Status
from harness.store import Store, codec, open_reader, standings, suspended, writer_thread
from harness.store.bulk import NewEvaluation, NewSubmission, open_bulk
from harness.store.database import connect
from harness.store.location import location


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    try:
        server = PostgresServer()
        server.__enter__()
    except NoServerError as error:
        pytest.skip(f"NOT TESTED on PostgreSQL: {error}")
    yield server
    server.__exit__(None, None, None)


@pytest.fixture
def server_home(sqlite_home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_DATABASE_URL", postgres_url)
    return sqlite_home


def test_a_server_that_goes_away_in_mid_run(own_server: PostgresServer, sqlite_home: Path) -> None:
    url = own_server.create("store")
    with Store.open(url) as store:
        submission = store.add_submission("b", "ada", "a.py", "pass")
        evaluation = store.begin_evaluation(submission, HEADER)
        store.add_case(evaluation, CaseResult(CaseKind.TEST, 0, {}, Status.PASSED))
        own_server.stop()
        with pytest.raises(MachineError, match="no server answers") as caught:
            store.add_case(evaluation, CaseResult(CaseKind.TEST, 1, {}, Status.PASSED))
        assert "host=" not in str(caught.value)
        with pytest.raises(MachineError, match="no server answers"), open_reader(url):
            pass
        own_server.start()
        store.add_case(evaluation, CaseResult(CaseKind.TEST, 1, {}, Status.PASSED))
        store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    with open_reader(url) as reader:
        (row,) = reader.evaluations(submission)
    assert [case.index for case in row.cases] == [0, 1]
    assert row.outcome.status is Status.PASSED


def test_a_connection_that_breaks_in_mid_transaction(server_home: Path) -> None:
    """The transaction is undone as a whole, and the reader says what happened."""
    add("ada", 1000)
    with pytest.raises(MachineError, match="connection to the server was lost"):
        break_off()
    db = connect(location())
    with db.transaction():
        assert standings.differences(db) == []
    db.close()


def break_off() -> None:
    with open_reader() as reader:
        db = reader.database
        assert db is not None
        with db.transaction():
            db.run("DELETE FROM user_standings")
            other = connect(location())
            other.run("SELECT pg_terminate_backend(:pid)", {"pid": db.connection.info.backend_pid})
            other.close()
            db.run("DELETE FROM scored_runs")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((".invalid", ""), "no such database"),
        (("", "&port=1"), "no server answers"),
        (("", "&user=nobody_of_that_name"), "doesn't know this user"),
    ],
)
def test_urls_that_lead_nowhere(postgres_url: str, change: tuple[str, str], message: str) -> None:
    base, _, options = postgres_url.partition("?")
    url = f"{base}{change[0]}?{options}{change[1]}".replace("harness@", "harness:secret@")
    for opening in (Store.open, lambda url: open_reader(url).__enter__()):
        with pytest.raises(MachineError, match=message) as caught:
            opening(url)
        assert "secret" not in str(caught.value)
        assert "Set" in str(caught.value) or "heck" in str(caught.value)


@pytest.mark.parametrize("prefix", ["postgres://", "postgresql+psycopg://"])
def test_other_spellings_of_the_url(postgres_url: str, prefix: str) -> None:
    url = postgres_url.replace("postgresql://", prefix)
    Store.open(url).close()
    with open_reader(url) as reader:
        assert reader.leaderboards() == []


def test_a_database_without_a_store_reads_as_empty_and_stays_so(postgres_url: str) -> None:
    with open_reader(postgres_url) as reader:
        assert reader.history("ada") == []
    db = connect(location(postgres_url))
    assert db.tuples("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") == []
    db.close()


def test_somebody_elses_database(postgres_url: str) -> None:
    db = connect(location(postgres_url))
    db.run("CREATE TABLE theirs (x integer)")
    db.close()
    with pytest.raises(MachineError, match="something else than a harness store"), open_reader(postgres_url):
        pass
    with pytest.raises(MachineError, match="something else than a harness store"):
        Store.open(postgres_url)


def test_a_user_who_may_only_read(own_server: PostgresServer) -> None:
    url = own_server.create("store")
    with Store.open(url) as store:
        evaluation = store.begin_evaluation(store.add_submission("b", "ada", "a.py", "pass"), HEADER)
    db = connect(location(url))
    # The process that ran it is gone; a reader who may not write shows it as it stands.
    db.run("UPDATE evaluations SET process_start = process_start || '1'")
    db.run("CREATE ROLE guest LOGIN")
    db.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
    db.close()
    guest = url.replace("harness@", "guest@")
    with open_reader(guest) as reader:
        row = reader.evaluation(evaluation)
    assert row is not None
    assert row.outcome.status is Status.RUNNING
    with Store.open(url) as store, pytest.raises(MachineError, match="may not do that"):
        Store.open(guest).add_submission("b", "guest", "a.py", "pass")
    assert store is not None


def test_many_writers_of_one_class_miss_nobody(server_home: Path) -> None:
    """Each refreshes the same user's standing; one that read before another wrote would lose a run."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: add("ada", 1000 + n, source="one source"), range(18)))
    with open_reader() as reader:
        (of,) = reader.board_classes("board")
        ((entry,), _) = reader.best_of_users(of)
    assert (entry.runs, entry.score.value_ns) == (18, 1008.5)
    db = connect(location())
    with db.transaction():
        assert standings.differences(db) == []
    db.close()


def test_a_writer_that_waits_too_long_says_so(server_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.database.BUSY_TIMEOUT_S", 1.0)
    with Store.open() as store:
        db = connect(location())
        with db.transaction(), pytest.raises(MachineError, match="kept the store locked"):
            store.add_submission("b", "ada", "a.py", "pass")
        db.close()


def test_without_psycopg_one_clear_error(tmp_path: Path) -> None:
    code = "import sys; sys.modules['psycopg'] = None\nfrom harness.cli.main import main\nmain(['history'])"
    environment = {"HARNESS_DATABASE_URL": "postgresql://somewhere/db", "PATH": "/usr/bin:/bin", "HARNESS_USER": "ada"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 3
    assert "-m pip install" in done.stderr
    assert "[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr


def schema_of(url: str) -> dict[str, str]:
    """Every index and key by name, as the server words it."""
    db = connect(location(url))
    indexes = db.tuples("SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
    keys = db.tuples(
        "SELECT 'key ' || conname, pg_get_constraintdef(oid) || ' ' || convalidated FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace"
    )
    db.close()
    return dict(indexes + keys)


ORIGINS = "index ix_submissions_origin"
SUSPENDED = {
    ORIGINS,
    "index ix_submissions_leaderboard_user_name_created_at_id",
    "index pk_scored_runs",
    "key fk_evaluations_submission_id_submissions",
    "key fk_submissions_source_sha256_sources",
    "key pk_scored_runs",
}
MANY = suspended.LEAST_ROWS
SCORED = replace(HEADER, mode=Mode.LEADERBOARD, isolation=IsolationLevel.NAMESPACES)


def some(number: int, user: str = "ada") -> list[NewSubmission]:
    """A submission with a score that ranks."""
    moment = "2026-11-01T00:00:00.000000Z"
    columns = {
        **codec.header_columns(SCORED),
        **codec.outcome_columns(EvaluationOutcome(Status.PASSED, None)),
        **dict.fromkeys(("score_low_ns", "score_high_ns", "rank_then")),
        **{"benchmarks": "", "host": "", "pid": 0, "process_start": ""},
    }
    evaluation = NewEvaluation(f"o/{number}", columns, moment, moment, 1000.0 + number)
    return [NewSubmission(f"o/{number}", "b", user, "a.py", f"# {number}", moment, "[]", evaluations=[evaluation])]


def test_a_large_bulk_write_gives_indexes_and_keys_back(postgres_url: str) -> None:
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    assert before.keys() > SUSPENDED
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(1))
        assert before.keys() - schema_of(postgres_url).keys() == SUSPENDED
    assert schema_of(postgres_url) == before
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(1))
        assert schema_of(postgres_url) == before  # most is known already


def test_a_submission_that_comes_again_is_known_without_the_index_of_origins(postgres_url: str) -> None:
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    with open_bulk(postgres_url, coming=MANY) as writer:
        for number in range(4):
            writer.add(some(number, "ada"))
        writer.add([*some(2, "bob"), *some(4, "bob")])
        writer.add(some(5))
    assert (writer.added.submissions, writer.added.evaluations, writer.added.known) == (6, 6, 1)
    assert schema_of(postgres_url) == before


def test_what_the_store_held_is_known_without_the_index_of_origins(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    with open_bulk(postgres_url) as writer:
        writer.add([*some(1), *some(2)])
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(3))
        assert before.keys() - schema_of(postgres_url).keys() == SUSPENDED
        writer.add([*some(1), *some(4)])
    assert (writer.added.submissions, writer.added.known) == (2, 1)
    assert schema_of(postgres_url) == before
    monkeypatch.setattr(suspended, "MOST_READ", 3)  # the store holds four: too many to read
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(5))
        assert before.keys() - schema_of(postgres_url).keys() == SUSPENDED - {ORIGINS}
        writer.add([*some(4), *some(6)])
    assert (writer.added.submissions, writer.added.known) == (2, 1)
    assert schema_of(postgres_url) == before


def test_another_import_in_the_middle_of_a_large_one(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on every origin is looked up, for which the index is there."""
    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 0.1)
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(1))
        wait_for_submissions(postgres_url, 1)
        with open_bulk(postgres_url, coming=MANY) as another:
            another.add([*some(1), *some(2)])
            assert before.keys() - schema_of(postgres_url).keys() >= SUSPENDED - {ORIGINS}
        writer.add([*some(2), *some(3)])
    assert (writer.added.submissions, another.added.submissions) == (2, 1)
    assert schema_of(postgres_url) == before
    db = connect(location(postgres_url))
    assert db.tuples("SELECT origin FROM submissions ORDER BY id") == [("o/1",), ("o/2",), ("o/3",)]
    db.close()


def wait_for_submissions(url: str, count: int) -> None:
    """Until so many are committed: a bulk write's transaction takes some seconds."""
    db = connect(location(url))
    while db.value("SELECT count(*) FROM submissions") < count:
        time.sleep(0.05)
    db.close()


def test_readers_see_the_same_meanwhile(server_home: Path) -> None:
    def seen() -> object:
        with open_reader() as reader:
            (of,) = reader.board_classes("b")
            return (
                reader.best_of_users(of), reader.all_sources(of), reader.history("ada"), reader.history("bob", "b"),
                reader.leaderboards(), reader.latest_submission("ada"), reader.evaluations(2), reader.entries("b"),
            )  # fmt: skip

    with open_bulk() as writer:
        for number, user in enumerate(("ada", "bob", "ada", "eve")):
            writer.add(some(number, user))
    before = seen()
    db = connect(location())
    assert suspended.suspend(db, MANY)
    db.close()
    assert seen() == before
    with Store.open() as store:  # which is a writer, and puts all back
        store.delete_submission(store.add_submission("other", "ada", "a.py", "pass"))
    assert seen() == before


def test_after_a_large_import_that_was_killed_the_next_writer_gives_them_back(server_home: Path) -> None:
    """Of the real command, in the middle of its rows; importing the file again then adds the rest."""
    Store.open().close()
    url = os.environ["HARNESS_DATABASE_URL"]
    before = schema_of(url)
    file = published_file(server_home / "many.parquet", 4 * MANY)
    command = [sys.executable, "-m", "harness.cli.main", "import", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    db = connect(location())
    while process.poll() is None and not db.value("SELECT EXISTS (SELECT FROM submissions)"):
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -9
    assert before.keys() - schema_of(url).keys() == SUSPENDED
    with open_reader() as reader:
        assert reader.leaderboards() == ["b"]
    assert before.keys() - schema_of(url).keys() == SUSPENDED  # a reader changes nothing
    with Store.open() as store:
        assert schema_of(url) == before
        submission = store.add_submission("c", "ada", "a.py", "pass")
        store.delete_submission(submission)
        with pytest.raises(RequestError, match=f"no submission {submission}"):
            store.begin_evaluation(submission, HEADER)
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    assert counts["submissions_added"] + counts["known"] == 4 * MANY
    assert counts["known"] > 0
    assert schema_of(url) == before
    with db.transaction():
        assert standings.differences(db) == []
    db.close()


def published_file(path: Path, rows: int) -> Path:
    columns = {
        "submission_id": list(range(rows)),
        "problem_name": ["b"] * rows,
        "user_id": [f"u{number % 50}" for number in range(rows)],
        "submission_time": pa.array([1_700_000_000_000_000 + number for number in range(rows)], pa.timestamp("us")),
        "code": [f"# {number}" for number in range(rows)],
        "mode": ["leaderboard"] * rows,
        "passed": [True] * rows,
        "score": [1e-5 * (1 + number % 1000) for number in range(rows)],
    }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("table", ["evaluations", "scored_runs"])
def test_all_stays_where_a_reader_is_in_the_way(postgres_url: str, table: str) -> None:
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    db = connect(location(postgres_url))
    with db.connection.transaction():
        db.tuples(f"SELECT * FROM {table}")
        with open_bulk(postgres_url, coming=MANY) as writer:
            writer.add(some(1))
            assert schema_of(postgres_url) == before
    assert db.value("SELECT count(*) FROM submissions") == 1
    db.close()


def test_a_reader_in_the_way_at_the_end_leaves_one_key_to_the_next_writer(postgres_url: str) -> None:
    """The index is there, and unique; nobody waits for that reader."""
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    db = connect(location(postgres_url))
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(1))
        db.connection.autocommit = False
        db.tuples("SELECT * FROM scored_runs")
    assert before.keys() - schema_of(postgres_url).keys() == {"key pk_scored_runs"}
    db.close()
    Store.open(postgres_url).close()
    assert schema_of(postgres_url) == before


@pytest.mark.parametrize(("coming", "there", "suspends"), [(MANY - 1, 0, False), (MANY, 4 * MANY + 1, False),
                                                           (MANY, 4 * MANY, True)])  # fmt: skip
def test_all_stays_where_giving_back_takes_longer(postgres_url: str, coming: int, there: int, suspends: bool) -> None:
    Store.open(postgres_url).close()
    db = connect(location(postgres_url))
    if there:
        db.value("SELECT setval(pg_get_serial_sequence('submissions', 'id'), :there)", {"there": there})
    before = schema_of(postgres_url)
    with open_bulk(postgres_url, coming=coming) as writer:
        writer.add(some(1))
        assert before.keys() - schema_of(postgres_url).keys() == (SUSPENDED if suspends else set())
    db.close()

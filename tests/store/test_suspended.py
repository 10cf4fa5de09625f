"""What a large import does without on PostgreSQL is put back, or somebody is told; and others who import meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from postgres_server import NoServerError, PostgresServer
from test_postgres import MANY, ORIGINS, SUSPENDED, schema_of, some

from harness.errors import MachineError
from harness.store import Store, suspended, writer_thread
from harness.store.bulk import BulkWriter, open_bulk
from harness.store.database import Database, connect
from harness.store.location import location

SLOW_INDEXES = """
CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.6); END';
CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE INDEX', 'DROP INDEX') EXECUTE FUNCTION slow();
"""


@pytest.fixture
def app() -> Iterator[tuple[Database, str]]:
    """A store that belongs to a user `app`, on a server of its own: the superuser's connection, and app's URL."""
    try:
        server = PostgresServer()
        server.__enter__()
    except NoServerError as error:
        pytest.skip(f"NOT TESTED on PostgreSQL: {error}")
    db = connect(location(server.create("store")))
    db.run("CREATE ROLE app LOGIN")
    db.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    db.run("GRANT CREATE, USAGE ON SCHEMA public TO app")
    url = server.url("store").replace("harness@", "app@")
    Store.open(url).close()
    yield db, url
    db.close()
    server.__exit__(None, None, None)


def origins(url: str) -> list[str]:
    db = connect(location(url))
    found = [row[0] for row in db.tuples("SELECT origin FROM submissions ORDER BY id")]
    db.close()
    return found


def test_who_could_put_nothing_back_does_without_nothing(app: tuple[Database, str]) -> None:
    db, url = app
    before = schema_of(url)
    db.run("REVOKE CREATE ON SCHEMA public FROM app")
    with open_bulk(url, coming=MANY) as writer:
        writer.add(some(1))
        assert schema_of(url) == before
    assert schema_of(url) == before
    assert origins(url) == ["o/1"]


def test_what_could_not_be_put_back_is_told_and_tried_again(app: tuple[Database, str]) -> None:
    """When all else is done; other writers do their work meanwhile."""
    db, url = app
    before = schema_of(url)
    with pytest.raises(MachineError, match=r"ix_submissions_origin \(permission denied") as caught:
        loses_the_right(db, url)
    assert "everything was added" in caught.value.what
    assert "pk_scored_runs" in caught.value.what
    assert "fk_" not in caught.value.what  # of those that are back nothing is said
    assert "owner" in caught.value.hint
    assert db.value("SELECT count(*) FROM user_standings") == 1
    with Store.open(url) as store:
        store.add_submission("b", "ada", "a.py", "pass")
    assert ORIGINS in before.keys() - schema_of(url).keys()
    with pytest.raises(ValueError, match="of the block"), open_bulk(url):
        raise ValueError("of the block")
    db.run("GRANT CREATE ON SCHEMA public TO app")
    Store.open(url).close()
    assert schema_of(url) == before


def loses_the_right(db: Database, url: str) -> None:
    with open_bulk(url, coming=MANY) as writer:
        writer.add(some(1))
        db.run("REVOKE CREATE ON SCHEMA public FROM app")


def test_a_limit_for_statements_does_not_count(postgres_url: str) -> None:
    Store.open(postgres_url).close()
    before = schema_of(postgres_url)
    db = connect(location(postgres_url))
    db.connection.execute(SLOW_INDEXES)
    db.run(f"ALTER DATABASE {db.value('SELECT current_database()')} SET statement_timeout = '500ms'")
    db.close()
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(some(1))
        assert before.keys() - schema_of(postgres_url).keys() == SUSPENDED
    assert schema_of(postgres_url) == before


def wait_for_ids(db: Database, last: int) -> None:
    """Until another's transaction, which is not committed, has taken them."""
    deadline = time.monotonic() + 20
    while db.last_id("submissions") < last:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_imports_begun_together_into_an_empty_store(postgres_url: str) -> None:
    """The second finds the ids of the first taken, and no rows yet."""
    Store.open(postgres_url).close()
    db = connect(location(postgres_url))
    with open_bulk(postgres_url) as first:
        first.add(some(1))
        wait_for_ids(db, 1)
        second = BulkWriter(db)
    second.add([*some(1), *some(2)])
    assert second.settle() == {}
    assert (second.added.submissions, second.added.known) == (1, 1)
    assert origins(postgres_url) == ["o/1", "o/2"]
    db.close()


def test_another_import_just_when_indexes_were_dropped(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has taken ids, and not committed, when the large one reads which origins there are."""
    monkeypatch.setattr(writer_thread, "LONGEST_TRANSACTION_S", 0.5)
    given = [some(0)[0], some(1)[0]._replace(source_text="# 0")]
    with open_bulk(postgres_url) as writer:
        writer.add(given[:1])
    before = schema_of(postgres_url)
    db = connect(location(postgres_url))
    other = BulkWriter(db)
    suspend = suspended.suspend

    def and_another_writes(large: Database, coming: int) -> bool:
        suspends = suspend(large, coming)
        assert suspends
        other.add(given[1:])
        wait_for_ids(large, 2)
        return suspends

    monkeypatch.setattr(suspended, "suspend", and_another_writes)
    with open_bulk(postgres_url, coming=MANY) as writer:
        writer.add(given[1:])
    other.settle()
    assert (writer.added.submissions, other.added.submissions) == (0, 1)
    assert origins(postgres_url) == ["o/0", "o/1"]
    assert schema_of(postgres_url) == before
    db.close()

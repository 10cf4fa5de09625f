from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from test_durability import HEADER as TEST_HEADER

from harness.evaluation.record import CaseKind, CaseResult, EvaluationOutcome, IsolationLevel, Mode, Samples, Status
from harness.store import Store, open_reader, queries
from harness.store.database import Database, connect_postgres
from harness.store.location import location
from harness.store.migrate import alembic_config
from harness.store.schema import metadata

Opener = Callable[[], Database]
HEADER = replace(TEST_HEADER, mode=Mode.LEADERBOARD, isolation=IsolationLevel.NAMESPACES)
BACK_TO_0002 = (
    "DROP INDEX ix_evaluations_running",
    "CREATE INDEX ix_evaluations_status ON evaluations (status)",
    "ALTER TABLE evaluations DROP COLUMN state",
    *(f"DROP TABLE {table}" for table in ("compilations", "noise_calibrations", "device_calibrations")),
    *(f"DROP TABLE {table}" for table in ("user_standings", "scored_runs", "rank_classes", "store_info")),
    "DROP INDEX ix_submissions_origin",
    *(f"ALTER TABLE {table} DROP COLUMN origin" for table in ("submissions", "evaluations")),
    *(f"ALTER TABLE {table} DROP COLUMN published" for table in ("submissions", "evaluations")),
    "ALTER TABLE evaluations DROP COLUMN rank_then",
    "DROP INDEX ix_submissions_leaderboard_user_name_created_at_id",
    "DROP INDEX ix_submissions_user_name_created_at_id",
    "CREATE INDEX ix_submissions_leaderboard_user_name_id ON submissions (leaderboard, user_name, id)",
    "CREATE INDEX ix_submissions_user_name_id ON submissions (user_name, id)",
    "UPDATE alembic_version SET version_num = '0002'",
)


def differing() -> list[str]:
    """The steps that would make the store's tables those of `schema`."""
    place = location()
    if place.dsn is None:
        engine = create_engine(place.url)
    else:
        engine = create_engine("postgresql+psycopg://", creator=lambda: connect_postgres(place.dsn, autocommit=False))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        steps = compare_metadata(context, metadata)
    engine.dispose()
    return [str(step[0] if isinstance(step, tuple) else step[0][0]) for step in steps]


def test_migrations_lead_to_the_tables_in_schema(home: Path) -> None:
    Store.open().close()
    assert differing() == []


def test_a_column_that_no_migration_makes_is_noticed(home: Path, raw: Opener) -> None:
    """The test above can fail."""
    Store.open().close()
    raw().run("ALTER TABLE submissions ADD COLUMN extra TEXT")
    assert differing() == ["remove_column"]


def test_an_old_store_is_migrated_with_its_rankings(home: Path, raw: Opener) -> None:
    """Brought back to the second schema, with one ranked evaluation, then opened by a reader."""
    with Store.open() as store:
        evaluation = store.begin_evaluation(store.add_submission("b", "ada", "a.py", "pass"), HEADER)
        case = CaseResult(CaseKind.BENCHMARK, 0, {}, Status.PASSED, samples=Samples((1000,) * 7))
        store.add_case(evaluation, case)
        store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    db = raw()
    for statement in BACK_TO_0002:
        db.run(statement)
    with open_reader() as reader:
        (entry,) = reader.entries("b")
        (of,) = reader.board_classes("b")
        assert reader.best_of_users(of) == ([entry], 1)
    assert (entry.user, entry.score.value_ns) == ("ada", 1000.0)
    assert differing() == []


def test_the_reader_knows_the_newest_version() -> None:
    script = ScriptDirectory.from_config(alembic_config())
    revisions = [revision.revision for revision in script.walk_revisions()]
    assert revisions[0] == queries.SCHEMA_VERSION
    assert revisions == sorted(revisions, reverse=True)


def test_opening_twice_changes_nothing(home: Path) -> None:
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
    Store.open().close()
    with open_reader() as reader:
        assert reader.last_submission_id() == 1


def test_wal(sqlite_home: Path) -> None:
    Store.open().close()
    connection = sqlite3.connect(sqlite_home / "harness.sqlite3")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_reading_imports_no_sqlalchemy(home: Path) -> None:
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
    code = (
        "import sys\n"
        "from harness.store import open_reader\n"
        "with open_reader() as reader: assert reader.history('ada')\n"
        "print(sorted({'sqlalchemy', 'alembic', 'torch', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

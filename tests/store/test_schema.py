from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from harness.store import Store, open_reader, queries
from harness.store.migrate import alembic_config
from harness.store.schema import metadata


def test_migrations_lead_to_the_tables_in_schema(home: Path) -> None:
    Store.open().close()
    with create_engine(f"sqlite:///{home}/harness.sqlite3").connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_a_column_that_no_migration_makes_is_noticed(home: Path) -> None:
    """The test above can fail."""
    Store.open().close()
    connection = sqlite3.connect(home / "harness.sqlite3")
    connection.execute("ALTER TABLE submissions ADD COLUMN extra TEXT")
    connection.close()
    with create_engine(f"sqlite:///{home}/harness.sqlite3").connect() as engine_connection:
        context = MigrationContext.configure(engine_connection, opts={"compare_type": True})
        assert [step[0] for step in compare_metadata(context, metadata)] == ["remove_column"]


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


def test_wal(home: Path) -> None:
    Store.open().close()
    connection = sqlite3.connect(home / "harness.sqlite3")
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

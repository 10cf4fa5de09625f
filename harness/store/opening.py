"""Opening the database of a store: whether it is ours and of this version, and what is to be done first."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from harness.errors import MachineError
from harness.store import queries, standings
from harness.store.database import Database, connect
from harness.store.location import Location
from harness.store.process import ProcessIdentity, is_gone

INTERRUPTED_MESSAGE = "the process that ran it ended before it did"


def open_database(place: Location) -> Database | None:
    """A connection to a store of this version; None when there is no store yet."""
    if place.path is not None:
        try:
            place.path.stat()  # not exists(), which takes a file where a folder should be for no store yet
        except FileNotFoundError:
            return None
    db = connect(place)
    try:
        if not check_version(db, place):
            if db.postgres and not db.value(queries.HAS_VERSION[True]):
                db.close()
                return None
            db.close()
            from harness.store.writing import Store

            Store.open(place.url).close()
            db = connect(place)
        with suppress(*_may_only_read(db)):  # a store that may only be read is shown as it stands
            mark_interrupted(db)
    except BaseException:
        db.close()
        raise
    return db


def check_version(db: Database, place: Location) -> bool:
    """Whether the schema is up to date; False when a migration must run. Raises MachineError for what is not ours or
    is of a newer version."""
    with suppress(*db.errors):  # nearly always there is nothing more to ask
        if db.tuples(queries.VERSIONS) == [(queries.SCHEMA_VERSION, standings.VERSION)]:
            return True
    has_tables = db.value(queries.HAS_TABLES[db.postgres])  # first: another may be making all of them just now
    if not db.value(queries.HAS_VERSION[db.postgres]):
        if has_tables:
            raise MachineError(
                "this database holds something else than a harness store",
                where=place.shown,
                hint="Nothing was changed. Set HARNESS_DATABASE_URL or HARNESS_HOME to another place.",
            )
        return False
    version = str(db.value(queries.VERSION) or "")
    if version > queries.SCHEMA_VERSION:
        raise MachineError(
            f"the store was written by a newer harness (schema {version}, this one knows {queries.SCHEMA_VERSION})",
            where=place.shown,
            hint="Nothing was changed. Upgrade harness, or set HARNESS_HOME or HARNESS_DATABASE_URL to another store.",
        )
    return version == queries.SCHEMA_VERSION and db.value(queries.INFO, {"key": "standings"}) == standings.VERSION


def mark_interrupted(db: Database) -> None:
    """Close the books of every evaluation whose process has ended."""
    for row in db.rows(queries.RUNNING):
        if is_gone(ProcessIdentity(row["host"], row["pid"], row["process_start"])):
            db.run(queries.MARK_INTERRUPTED, {"id": row["id"], "message": INTERRUPTED_MESSAGE})


def is_database_error(error: Exception) -> bool:
    """Whether a driver raised it, of whichever database."""
    return isinstance(error, sqlite3.Error) or any(
        base.__module__.partition(".")[0] == "psycopg" for base in type(error).__mro__
    )


def _may_only_read(db: Database) -> tuple[type[Exception], ...]:
    if not db.postgres:
        return (sqlite3.OperationalError,)
    from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction

    return (InsufficientPrivilege, ReadOnlySqlTransaction)

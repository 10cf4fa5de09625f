"""What a large bulk write on PostgreSQL does without: foreign keys, which the server checks row by row, and the indexes
that are not for it, whose pages it would write again and again. When it ends they are put back, which checks and sorts
all rows at once; after one that was cut off, whoever opens the store for writing next does that.

Meanwhile readers see what they would see otherwise, only later: they read whole tables where they lack an index. And
nothing breaks the keys: who adds a row looks in the same transaction, under the writers' lock, that what it refers to
is there; a run is of an evaluation that is new; origins go without their index only where the import can know all of
them, those that were there included. On SQLite readers would wait while an index is made, and a bulk write's
connection asks for no checks: there nothing is suspended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.store.database import Database
from harness.store.seen import MOST_EXACT, MOST_READ

if TYPE_CHECKING:
    from sqlalchemy import Column, Constraint, Index

LEAST_ROWS = 20_000
"""For fewer, putting back takes as long as doing without gains."""
MOST_TIMES = 4
"""Putting back takes all rows, doing without gains only by those that come: where the store holds more than so many
times these, all stays as it is."""
_LONGEST_WAIT = "SET LOCAL lock_timeout = '200ms'"
"""For readers to be done, since others queue behind who waits for them. Where it is not enough, all stays as it is."""
_NO_LIMIT = "SET LOCAL statement_timeout = 0"
"""Of whoever set one for the user or the database: an index that takes longer would never be put back."""
_LOCK_TIMEOUT = "55P03"
_MAY_PUT_BACK = """
SELECT has_schema_privilege(current_user, relnamespace, 'CREATE') FROM pg_class WHERE oid = 'submissions'::regclass
"""
"""Who owns a table may drop its indexes; to make them takes this right, too."""
_SORTING_MIB = 128
"""Memory of the server while it makes an index: the keys of a million submissions, so that they need no file."""
OF_ORIGINS, INDEXES = ("origins",), ("origins", "index")
EVERYTHING = (*INDEXES, "key")
_THERE = """
SELECT 'index', c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid IN ('submissions'::regclass, 'evaluations'::regclass, 'scored_runs'::regclass)
UNION ALL
SELECT 'key', conname FROM pg_constraint
WHERE conrelid IN ('submissions'::regclass, 'evaluations'::regclass, 'scored_runs'::regclass)
"""


@dataclass(frozen=True)
class _Part:
    """A key or an index, and the SQL that drops it and makes it again."""

    kind: str  # of EVERYTHING
    name: str
    drop: str
    make: tuple[str, ...]


def suspend(db: Database, coming: int) -> bool:
    """Do without, where so many submissions to come are worth it, this user may, and nobody is in the way; whether that
    goes for the index of origins, too: then who writes has to know which origins came before."""
    there = db.last_id("submissions")
    if not db.postgres or coming < LEAST_ROWS or there > MOST_TIMES * coming:
        return False
    origins = there <= MOST_READ and there + coming <= MOST_EXACT
    with db.transaction():  # whose lock other writers hold, too: none of them is in the way
        if not db.value(_MAY_PUT_BACK):
            return False
        with suppress(*db.errors), db.connection.transaction():
            db.run(_LONGEST_WAIT)
            db.run(_NO_LIMIT)
            for part in reversed(_parts()):
                if origins or part.kind not in OF_ORIGINS:
                    db.run(part.drop)
            return origins
    return False


def restore(db: Database, kinds: Collection[str] = EVERYTHING) -> dict[str, str]:
    """Put back what is missing. Readers wait for the keys alone, from when they are there to the end of the caller's
    transaction: those come last in it. Who may not do it leaves it to the next.

    Returns the names of what could not be put back, and why; not of a key that a reader is in the way of: its index is
    there, and the next writer makes it.
    """
    failed: dict[str, str] = {}
    if not db.postgres:
        return failed
    there = {(kind == "key", name) for kind, name in db.tuples(_THERE)}
    for part in _parts():
        if part.kind in kinds and (part.kind == "key", part.name) not in there:
            try:
                with db.connection.transaction():
                    db.run(_NO_LIMIT)
                    for statement in part.make:
                        db.run(statement)
            except db.errors as error:
                if part.kind != "key" or getattr(error, "sqlstate", None) != _LOCK_TIMEOUT:
                    failed.setdefault(part.name, str(error).partition("\n")[0])
    return failed


def _parts() -> list[_Part]:
    """What may be missing, as `schema` has it, in the order in which it is made."""
    from harness.store import schema  # which imports SQLAlchemy

    parts = []
    for table in (schema.submissions, schema.evaluations):
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.info in (schema.FOR_READERS, schema.FOR_IMPORTS):
                kind = "index" if index.info == schema.FOR_READERS else "origins"
                parts.append(_index(kind, index, table.name, index.columns, unique=index.unique))
        for key in table.foreign_key_constraints:
            columns = f"({', '.join(key.column_keys)})"
            referred = f"{key.referred_table.name} ({', '.join(each.column.name for each in key.elements)})"
            parts.append(_key(key, table.name, f"FOREIGN KEY {columns} REFERENCES {referred}"))
    # Its index is made first, while readers read; turned into a key, it takes a moment without any.
    runs = schema.scored_runs
    parts.append(_index("index", runs.primary_key, runs.name, runs.primary_key.columns, unique=True))
    parts.append(_key(runs.primary_key, runs.name, f"PRIMARY KEY USING INDEX {runs.primary_key.name}", _LONGEST_WAIT))
    return parts


def _index(kind: str, of: Index | Constraint, table: str, columns: Iterable[Column[Any]], *, unique: bool) -> _Part:
    names = ", ".join(column.name for column in columns)
    make = f"CREATE {'UNIQUE ' if unique else ''}INDEX {of.name} ON {table} ({names})"
    memory = f"SET LOCAL maintenance_work_mem = '{_SORTING_MIB}MB'"
    return _Part(kind, str(of.name), f"DROP INDEX IF EXISTS {of.name}", (memory, make))


def _key(of: Constraint, table: str, definition: str, *before: str) -> _Part:
    make = f"ALTER TABLE {table} ADD CONSTRAINT {of.name} {definition}"
    return _Part("key", str(of.name), f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {of.name}", (*before, make))

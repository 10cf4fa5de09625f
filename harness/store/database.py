"""A connection to the store's database through the DB-API alone: SQLite or PostgreSQL, one text of SQL for both.

SQLAlchemy makes the tables and writes single rows; everything that reads, and everything that writes in bulk, comes
through here, because importing SQLAlchemy takes longer than a command that only shows something may take.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from harness.doctor.advice import install_extra
from harness.errors import MachineError
from harness.store.location import BUSY_TIMEOUT_S, Location

Row = Mapping[str, Any]
WRITERS_LOCK = 0x6861726E657373
"""The advisory lock that a writer of a PostgreSQL store holds for its transaction (the word `harness` in ASCII)."""
CONNECT_TIMEOUT_S = 10
_LOOK_UP_AT_ONCE = 500
_ROWS_A_STATEMENT = 500
_NAMED = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


class Database:
    """An open connection, in autocommit mode outside of `transaction()`. SQL has `:name` parameters."""

    def __init__(self, connection: Any, *, postgres: bool, errors: tuple[type[Exception], ...]) -> None:
        self.connection = connection
        self.postgres = postgres
        self.errors = errors
        """What the driver raises."""
        self._types: dict[tuple[str, str], list[int]] = {}

    def tuples(self, sql: str, parameters: Row | None = None) -> list[tuple[Any, ...]]:
        """The rows as tuples, for loops over many."""
        rows: list[tuple[Any, ...]] = self._execute(sql, parameters).fetchall()
        return rows

    def stream(self, sql: str, parameters: Row | None = None, at_once: int = 2000) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples, never all of them in memory."""
        if self.postgres:
            # The server keeps the result, within the transaction that is under way or one for this alone.
            with self.connection.transaction(), self.connection.cursor(name="harness") as cursor:
                cursor.itersize = at_once
                cursor.execute(_for_psycopg(sql), parameters or {})
                yield from cursor
            return
        cursor = self.connection.execute(sql, parameters or {})
        while rows := cursor.fetchmany(at_once):
            yield from rows

    def rows(self, sql: str, parameters: Row | None = None) -> list[Row]:
        """The rows as mappings by column name."""
        cursor = self._execute(sql, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def value(self, sql: str, parameters: Row | None = None) -> Any:
        """The first column of the first row; None when there is none."""
        row = self._execute(sql, parameters).fetchone()
        return None if row is None else row[0]

    def run(self, sql: str, parameters: Row | None = None) -> int:
        """Run a statement that gives no rows; how many it changed."""
        return int(self._execute(sql, parameters).rowcount)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add many rows at once; values in the order of `columns`."""
        if not rows:
            return
        names = ", ".join(columns)
        if self.postgres:
            if (table, names) not in self._types:
                described = self._execute(f"SELECT {names} FROM {table} LIMIT 0", None).description
                self._types[table, names] = [column.type_code for column in described]
            copying = f"COPY {table} ({names}) FROM STDIN (FORMAT binary)"  # text is read character by character
            with self.connection.cursor() as cursor, cursor.copy(copying) as copy:
                copy.set_types(self._types[table, names])
                for row in rows:
                    copy.write_row(row)
        else:
            # Many rows a statement: each statement gives Python's lock away and waits for it. FAIL, since what was
            # begun is rolled back as a whole: SQLite need not remember how to undo the one statement.
            most = self.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(columns)
            row = f"({', '.join('?' * len(columns))})"
            remaining = iter(rows)
            while some := list(islice(remaining, min(_ROWS_A_STATEMENT, most))):
                marks = ", ".join([row] * len(some))
                values = list(chain.from_iterable(some))
                self.connection.execute(f"INSERT OR FAIL INTO {table} ({names}) VALUES {marks}", values)

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns, in order."""
        return [column[0] for column in self._execute(f"SELECT * FROM {table} LIMIT 0", None).description]

    def look_up(self, table: str, key: str, values: Iterable[str | int], columns: str) -> list[tuple[Any, ...]]:
        """`columns` of the rows whose `key` is among `values`."""
        found: list[tuple[Any, ...]] = []
        remaining = iter(values)
        while some := list(islice(remaining, _LOOK_UP_AT_ONCE)):
            sql = f"SELECT {columns} FROM {table} WHERE {key} "
            if self.postgres:
                found += self.connection.execute(f"{sql} = ANY(%b)", [some]).fetchall()
            else:
                found += self.connection.execute(f"{sql} IN ({','.join('?' * len(some))})", some).fetchall()
        return found

    def new_ids(self, table: str, count: int) -> Sequence[int]:
        """Ids for that many new rows of a table; to be asked for, and used, within one transaction."""
        if self.postgres:
            # Nobody else asks for one meanwhile: a writer holds the lock.
            sql = "SELECT setval(name, nextval(name) + :count) FROM pg_get_serial_sequence(:table, 'id') AS name"
            last = self.value(sql, {"table": table, "count": count - 1})
            return range(last + 1 - count, last + 1)
        last = self.last_id(table)
        return range(last + 1, last + 1 + count)

    def last_id(self, table: str) -> int:
        """The last id that was given to a row of a table; 0 before the first."""
        if self.postgres:
            sql = "SELECT pg_sequence_last_value(pg_get_serial_sequence(:table, 'id')::regclass)"
        else:
            sql = "SELECT seq FROM sqlite_sequence WHERE name = :table"
        return self.value(sql, {"table": table}) or 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One writer at a time, as SQLite has it: the rows that a writer has read stay as they are until it is done."""
        if self.postgres:
            with self.connection.transaction():
                for statement in postgres_write_lock():
                    self.connection.execute(statement)
                yield
            return
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()

    def _execute(self, sql: str, parameters: Row | None) -> Any:
        if self.postgres:
            return self.connection.execute(_for_psycopg(sql), parameters or {})
        return self.connection.execute(sql, parameters or {})


def connect(place: Location) -> Database:
    """Connect to a SQLite file that exists, or to a PostgreSQL server.

    Raises what the driver raises; MachineError when there is no driver for PostgreSQL.
    """
    if place.dsn is not None:
        return of_psycopg(connect_postgres(place.dsn))
    assert place.path is not None
    return of_sqlite(_connect_sqlite(place.path))


def of_sqlite(connection: sqlite3.Connection) -> Database:
    return Database(connection, postgres=False, errors=(sqlite3.Error,))


def of_psycopg(connection: Any) -> Database:
    return Database(connection, postgres=True, errors=(_psycopg().Error,))


def connect_postgres(dsn: str, *, autocommit: bool = True) -> Any:
    """A psycopg connection. Raises psycopg.Error, and MachineError when psycopg is not installed."""
    return _psycopg().connect(
        dsn,
        autocommit=autocommit,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name="harness",
        client_encoding="utf8",
    )


def postgres_write_lock() -> tuple[str, ...]:
    """What a writing transaction says first on PostgreSQL."""
    return (
        f"SET LOCAL lock_timeout = '{BUSY_TIMEOUT_S:.0f}s'",
        f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})",
    )


def _connect_sqlite(path: Path) -> sqlite3.Connection:
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return _open_sqlite(path, "mode=rw")
    return read_only_sqlite(path)


def read_only_sqlite(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, to a file that may lie where nothing can be written.

    In WAL mode even a reader makes files beside the database. Where it can't, the file is read as one that nobody
    changes; not when a write-ahead log lies there, for what that holds would be missing. Raises sqlite3.Error.
    """
    connection = _open_sqlite(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if not os.access(path, os.R_OK) or (log.exists() and log.stat().st_size):
            raise
        return _open_sqlite(path, "immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_sqlite(path: Path, how: str) -> sqlite3.Connection:
    if os.path.exists(path) and not os.path.isfile(path):  # SQLite waits for a pipe
        what = "the store is a folder" if os.path.isdir(path) else "the store is not a file"
        raise MachineError(what, where=str(path), hint="Move it away, or set HARNESS_HOME to another folder.")
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,  # see writer_thread: never two at once
    )


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise MachineError(
            "HARNESS_DATABASE_URL names a PostgreSQL database, and psycopg is not installed",
            hint=f"Install it with `{install_extra('postgres')}`, or unset HARNESS_DATABASE_URL.",
        ) from error
    return psycopg


@lru_cache(maxsize=256)
def _for_psycopg(sql: str) -> str:
    """The same SQL with psycopg's parameters."""
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%"))

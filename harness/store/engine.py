"""SQLAlchemy's connections to the store: none is kept between transactions, each has the write lock from its start."""

from __future__ import annotations

import sqlite3
import time

from sqlalchemy import URL, create_engine, event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool

from harness.errors import MachineError
from harness.store.database import Database, connect_postgres, of_psycopg, of_sqlite, postgres_write_lock
from harness.store.location import BUSY_TIMEOUT_S, Location

_PAGE_BYTES = 8192
"""Sources of 2 to 4 KB fill half a page of SQLite's 4096 bytes, or leave the rest of it empty."""


def engine_of(place: Location) -> Engine:
    """The engine of a place; every transaction begins as a writer's."""
    # No pool: between calls there is no open descriptor that a forked worker could inherit.
    if place.dsn is not None:
        dsn = place.dsn
        engine = create_engine(
            "postgresql+psycopg://", poolclass=NullPool, creator=lambda: connect_postgres(dsn, autocommit=False)
        )
    else:
        engine = create_engine(
            URL.create("sqlite", database=str(place.path)), poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_S}
        )
        event.listen(engine, "connect", _configure_sqlite)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and writes later may fail at once when another wrote in between; one that
        # takes the write lock at its start waits for it.
        for statement in postgres_write_lock() if place.dsn is not None else ("BEGIN IMMEDIATE",):
            connection.exec_driver_sql(statement)

    return engine


def _configure_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions are ours to begin, in `_begin`, schema changes included
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a file that is new
    _use_wal(connection)


def plain(connection: Connection) -> Database:
    """The driver's connection below SQLAlchemy's, in the same transaction."""
    driver = connection.connection.driver_connection
    return of_sqlite(driver) if isinstance(driver, sqlite3.Connection) else of_psycopg(driver)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers never wait for the writer in WAL mode. The switch is made once, and SQLite does not wait to make it."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            if mode != "wal":
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode == "wal":
                return
            raise MachineError(f"this file system gives SQLite no WAL mode (got {mode})", where="the store")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)

"""What is done to the store under a run, and the store's files."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.store.database import WRITERS_LOCK
from harness.store.location import location

CLONE_NEWNS = 0x00020000


def on_server() -> bool:
    """Whether the store is a PostgreSQL database."""
    return location().dsn is not None


def store_path() -> Path:
    path = location().path
    assert path is not None
    return path


def store_files() -> list[tuple[int, int]]:
    found = []
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            stat = Path(f"{store_path()}{end}").stat()
            found.append((stat.st_size, stat.st_mtime_ns))
    return found


@contextmanager
def locked() -> Iterator[None]:
    """Hold the store's write lock, as another writer would."""
    connection: Any
    if on_server():
        connection = server_connection()
        connection.execute("BEGIN")
        connection.execute(f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})")
    else:
        connection = sqlite3.connect(store_path(), isolation_level=None, timeout=30)
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def server_connection() -> Any:
    import psycopg

    return psycopg.connect(location().dsn, autocommit=True, application_name="faults")


def cut_connections(until: Callable[[], bool]) -> None:
    """End every connection of the harness to the server, and every new one, until `until` says so."""
    with server_connection() as connection:
        while not until():
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'harness' AND datname = current_database()"
            )
            time.sleep(0.002)


@contextmanager
def read_only() -> Iterator[None]:
    """The store's folder as one that can't be written: by its mode, or by its mount for root, whom modes don't hold."""
    folder = store_path().parent
    if os.getuid():
        folder.chmod(0o500)
        store_path().chmod(0o400)
    else:
        for _ in range(100):  # busy while the store is open for writing
            if not mount("-o", "remount,bind,ro", str(folder)):
                break
            time.sleep(0.01)
    try:
        yield
    finally:
        if os.getuid():
            folder.chmod(0o700)
            store_path().chmod(0o600)
        else:
            mount("-o", "remount,bind,rw", str(folder))


def mount(*arguments: str) -> int:
    return subprocess.run(["mount", *arguments], stderr=subprocess.DEVNULL).returncode


def own_mounts(folder: Path) -> bool:
    """Give this process mounts of its own, with `folder` as one; whether that could be done."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        return False
    return not mount("--make-rprivate", "/") and not mount("--bind", str(folder), str(folder))

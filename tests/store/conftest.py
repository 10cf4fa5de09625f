from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.store.database import Database, connect
from harness.store.location import location


@pytest.fixture
def sqlite_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HARNESS_HOME; the store's file in it is `harness.sqlite3`."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    monkeypatch.delenv("HARNESS_RANK_UNISOLATED", raising=False)
    return tmp_path


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, sqlite_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HARNESS_HOME and an empty store of either kind."""
    if request.param == "postgres":
        monkeypatch.setenv("HARNESS_DATABASE_URL", request.getfixturevalue("postgres_url"))
    return sqlite_home


@pytest.fixture
def raw(home: Path) -> Iterator[Callable[[], Database]]:
    """Opens the store's database, to look at it or to harm it behind the store's back."""
    opened: list[Database] = []

    def open_it() -> Database:
        opened.append(connect(location()))
        return opened[-1]

    yield open_it
    for db in opened:
        db.close()

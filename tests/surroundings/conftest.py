"""A `harness` that is called in surroundings of every kind."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from calling import HERE, NOBODY, Answer, CommandServer, Harness

sys.path.insert(0, str(HERE.parent / "cli_screens"))

STATUSES = (0, 1, 2, 3, 130, 141)
_HIDDEN = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


@pytest.fixture(scope="session")
def server() -> Iterator[CommandServer]:
    running = CommandServer()
    yield running
    running.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may enter, whose paths are short."""
    folder = Path(tempfile.mkdtemp(prefix="harness-faults-"))
    folder.chmod(0o755)
    yield folder
    for found, names, _ in os.walk(folder):  # each before it is entered
        for name in names:
            Path(found, name).chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def shut(place: Path) -> Path:
    """A folder that a powerless process may not enter. A file and a board lie in it."""
    folder = place / "shut"
    (folder / "board").mkdir(parents=True)
    (folder / "board" / "task.yml").write_text("lang: py\n")
    (folder / "kernel.py").write_text("def custom_kernel(data): return data\n")
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o700)
    else:
        folder.chmod(0)
    return folder


@pytest.fixture
def harness(server: CommandServer, place: Path, sample: Path) -> Harness:
    """Call `harness` as ada, with a copy of the sample store. What no call may do is looked for after each: break off,
    hang, leave the contract's statuses, or write what moves a cursor."""
    home = place / "home"
    home.mkdir()
    home.chmod(0o777)
    shutil.copy(sample, home / "harness.sqlite3")
    (home / "harness.sqlite3").chmod(0o666)
    here = place / "here"
    here.mkdir(mode=0o755)

    def call(*arguments: str, environment: Mapping[str, str | None] | None = None, **how: Any) -> Answer:
        own: dict[str, str | None] = {"HARNESS_HOME": str(home), "HARNESS_USER": "ada", "HARNESS_DATABASE_URL": None}
        own |= {"HARNESS_LEADERBOARDS": None, "COLUMNS": None, **(environment or {})}
        answer = server.call(*arguments, environment=own, **{"folder": here, **how})
        for stream in (answer.out, answer.err):
            assert b'File "' not in stream or arguments[0] in ("show", "run"), answer.words  # a traceback of ours
            assert b"internal error" not in stream, answer.words
            if how.get("encoding", "utf-8") != "utf-16":
                assert not _HIDDEN.search(stream), stream
        assert answer.status in STATUSES, answer
        assert answer.words or answer.status in (0, 1, 141) or how.get("stderr"), answer
        return answer

    return call


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file that `sample_store.fill` makes, made once."""
    import sample_store

    from harness.store import Store

    file = tmp_path_factory.mktemp("sample") / "harness.sqlite3"
    with Store.open(f"sqlite:///{file}") as store:
        sample_store.fill(store)
    return file

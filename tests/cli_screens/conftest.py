from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_store
from click.testing import CliRunner, Result

from harness.cli.main import cli
from harness.errors import HarnessError
from harness.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HARNESS_HOME, for user ada, on a pipe of 80 columns."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARNESS_USER", "ada")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    monkeypatch.delenv("HARNESS_RANK_UNISOLATED", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file that `sample_store.fill` makes, made once."""
    file = tmp_path_factory.mktemp("sample") / "harness.sqlite3"
    with Store.open(f"sqlite:///{file}") as store:
        sample_store.fill(store)
    return file


@pytest.fixture
def filled(home: Path, sample: Path) -> Path:
    """`home` with a copy of the sample store in it."""
    (home / "home").mkdir()
    shutil.copy(sample, home / "home" / "harness.sqlite3")
    return home


@pytest.fixture
def harness() -> Callable[..., Result]:
    """Run the real command. Errors that `main` would turn into an exit status come back with that status and text."""

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(cli, list(arguments))
        if isinstance(result.exception, HarnessError):
            result.exit_code = int(result.exception.exit_status)
            result.stderr_bytes = str(result.exception).encode()
        elif result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from harness.cli.main import cli
from harness.errors import HarnessError


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and an empty store of either kind."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARNESS_USER", "ada")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    monkeypatch.delenv("HARNESS_RANK_UNISOLATED", raising=False)
    if request.param == "postgres":
        monkeypatch.setenv("HARNESS_DATABASE_URL", request.getfixturevalue("postgres_url"))
    return tmp_path


@pytest.fixture
def harness() -> Callable[..., Result]:
    """Run the real command. Errors that `main` would turn into an exit status come back with that status and text."""

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)
        if isinstance(result.exception, HarnessError | click.ClickException):
            error = result.exception
            result.exit_code = int(error.exit_status) if isinstance(error, HarnessError) else 2
            text = str(error) if isinstance(error, HarnessError) else error.format_message()
            result.stderr_bytes = (result.stderr_bytes or b"") + text.encode()
        elif result.exception is not None:
            raise result.exception
        elif isinstance(result.return_value, int):
            result.exit_code = int(result.return_value)
        return result

    return run

"""What every command shares: the `--json` option, the two consoles, the user's name."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add `--json`, which the command receives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document, at full precision.")(command)


def user_option(command: F) -> F:
    """Add `--user`, which defaults to `HARNESS_USER` and then to the login name."""
    return click.option(
        "--user", default=default_user, show_default="HARNESS_USER, else the login name", help="Whose submissions."
    )(command)


def default_user() -> str:
    """The user a command speaks for when `--user` is not given."""
    try:
        return os.environ.get("HARNESS_USER") or getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in some containers
        return f"uid{os.getuid()}"


def stdout_console() -> Console:
    """The console for results. Piped, it has no colour and a width that does not cut tables."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    return console


def stderr_console() -> Console:
    """The console for progress and warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))

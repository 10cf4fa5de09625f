"""What every command shares: the `--json` option, the two consoles, the user's name."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.streams import takes_unicode
from harness.cli.usage import BadValue, usage_error

if TYPE_CHECKING:
    from rich.console import Console

    from harness.errors import ExitStatus

F = TypeVar("F", bound=Callable[..., Any])


MOST_WHOLE = 2**63 - 1
"""What every database holds."""


class WholeNumber(click.ParamType):
    """An integer of at least `least`, where one is given, and of 64 bits at most."""

    name = "integer"

    def __init__(self, least: int | None = None) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            raise BadValue(f"'{value}' is not a whole number", param, ctx, allowed=self._allowed()) from None
        if self.least is not None and number < self.least:
            raise BadValue(f"{number} is too small", param, ctx, allowed=self._allowed())
        if abs(number) > MOST_WHOLE:
            raise BadValue(f"{number} is too large", param, ctx, allowed=f"up to {MOST_WHOLE}")
        return number

    def _allowed(self) -> str:
        return "" if self.least is None else f"{self.least} or more"


class Number(click.ParamType):
    """A finite number of at least `least`."""

    name = "number"

    def __init__(self, least: float) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        allowed = f"{self.least:g} or more"
        try:
            number = float(value)
        except ValueError:
            raise BadValue(f"'{value}' is not a number", param, ctx, allowed=allowed) from None
        if not self.least <= number < float("inf"):  # NaN is neither
            raise BadValue(f"{value} is out of range", param, ctx, allowed=allowed)
        return number


class FilePath(click.ParamType):
    """The path of a file or a folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = os.fspath(value)
        if not text or "\x00" in text:
            raise BadValue(f"{text!r} is no path", param, ctx)
        return Path(text)


class UserName(click.ParamType):
    """A user's name as every store holds it and an export brings it back."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from harness.store.rows import LONGEST_NAME_BYTES

        text = str(value)
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise BadValue(f"{text!r} is not UTF-8 text", param, ctx) from None
        if size > LONGEST_NAME_BYTES:
            raise BadValue(f"a user's name of {size} bytes", param, ctx, allowed=str(LONGEST_NAME_BYTES))
        if not text or "\x00" in text:
            raise BadValue(f"{text!r} is no user's name", param, ctx)
        return text


LEAST_WIDTH, MOST_WIDTH, PIPED_WIDTH = 20, 10_000, 120
"""The columns of a screen: what COLUMNS may say, and what a pipe has where it says nothing."""


def json_option(command: F) -> F:
    """Add `--json`, which the command receives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document, at full precision.")(command)


def user_option(command: F) -> F:
    """Add `--user`, which defaults to `HARNESS_USER` and then to the login name."""
    return click.option(
        "--user",
        type=UserName(),
        default=default_user,
        show_default="HARNESS_USER, else the login name",
        help="Whose submissions.",
    )(command)


def default_user() -> str:
    """The user a command speaks for when `--user` is not given."""
    try:
        return os.environ.get("HARNESS_USER") or getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in some containers
        return f"uid{os.getuid()}"


def stdout_console() -> Console:
    """The console for results. Piped, it has no colour and a width that does not cut tables."""
    return _console(to_stderr=False)


def stderr_console() -> Console:
    """The console for progress and warnings."""
    return _console(to_stderr=True)


def _console(*, to_stderr: bool) -> Console:
    from rich.console import Console

    class PlainConsole(Console):
        @property
        def encoding(self) -> str:
            return "utf-8"  # tables look alike in every encoding: `streams` puts ASCII in the place of their lines

    # rich takes every number in COLUMNS and LINES as it is, and some that are none.
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    console = PlainConsole(stderr=to_stderr, highlight=False, _environ=known)
    width = os.environ.get("COLUMNS", "")
    if width.isascii() and width.isdigit() and width.strip("0"):
        console.width = min(int(width[:9]), MOST_WIDTH)
    elif not console.is_terminal and not to_stderr:
        console.width = PIPED_WIDTH
    if console.width < LEAST_WIDTH:
        console.width = LEAST_WIDTH
    return console


def say(text: str) -> None:
    """Words on standard error. They may quote files and their names: nothing in them moves a cursor."""
    from harness.cli.formatting import printable

    click.echo(printable(text), err=True)


def error_document(error: Exception) -> dict[str, Any]:
    """The document of an error under `--json`. `code` names the exit status, in small letters: `bad_request`,
    `machine_cannot`; the parts that an error leaves empty are None."""
    from harness.errors import ExitStatus, HarnessError

    if isinstance(error, click.ClickException):
        error = usage_error(error)
    if isinstance(error, HarnessError):
        return _error_part(error.exit_status, error.what, error.where, error.allowed, error.hint)
    return _error_part(ExitStatus.MACHINE_CANNOT, f"internal error: {type(error).__name__}: {error}", "", "", "")


def _error_part(status: ExitStatus, what: str, where: str, allowed: str, hint: str) -> dict[str, Any]:
    parts = {"what": what, "where": where or None, "allowed": allowed or None, "hint": hint or None}
    return {"error": {"code": status.name.lower(), **parts}}


def warn_of_missing_folders() -> None:
    """Say on standard error which folders of `HARNESS_LEADERBOARDS` are none: boards in them are not found."""
    if not os.environ.get("HARNESS_LEADERBOARDS"):
        return
    from harness.boards.find import missing_folders

    for part, trouble in missing_folders().items():
        say(f"warning: HARNESS_LEADERBOARDS names {part}, which {trouble}")


def print_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    as_it_is = takes_unicode(sys.stdout)
    click.echo(json.dumps(document, indent=2, ensure_ascii=not as_it_is, allow_nan=False))

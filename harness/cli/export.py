"""`harness export FILE`: the store as JSON lines, or as parquet in the published data's schema."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.common import UserName, json_option, print_json, say
from harness.cli.output_file import OutputFile
from harness.cli.streams import is_closed, takes_unicode
from harness.cli.usage import Misuse
from harness.errors import MachineError, RequestError

if TYPE_CHECKING:
    from harness.store import Reader

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("jsonl", "parquet")
_TELL_EVERY_S = 5.0


def format_option(command: F) -> F:
    """Add `--format`, which the command receives as `format_name`."""
    return click.option("--format", "format_name", type=click.Choice(FORMATS), help="Default: by the file's name.")(
        command
    )


@click.command()
@click.argument("file", type=OutputFile(dash=True))
@format_option
@click.option("--leaderboard", help="Only this board's.")
@click.option("--user", type=UserName(), help="Only this user's.")
@json_option
def export_command(
    file: Path, format_name: str | None, leaderboard: str | None, user: str | None, as_json: bool
) -> None:
    """Write the store's submissions to FILE; `-` is standard output.

    JSON lines (.jsonl, .jsonl.gz) hold everything, seeds and logs' paths included, what `harness compile` said and what
    `harness calibrate` measured; `harness import` gives it all back. Parquet (.parquet) is the schema of the published
    competition data: source, status, and the scores that rank, for other tools.

    \b
    harness export backup.jsonl.gz
    harness export cholesky.parquet --leaderboard cholesky
    harness export - | jq 'select(.kind == "submission").user_name'
    """
    from harness.cli.lookup import recorded_board
    from harness.store import open_reader
    from harness.transfer.export import export_lines, export_parquet

    to_stdout = str(file) == "-"
    kind = "jsonl" if to_stdout and format_name is None else format_of(file, format_name)
    if to_stdout and (kind == "parquet" or as_json):
        raise Misuse("standard output takes JSON lines alone, without --json and --format parquet", where="-")
    if to_stdout and is_closed(sys.stdout):
        raise MachineError("standard output is closed", where="-", hint="Name a file, or a program that reads: | gzip.")
    with open_reader() as reader, teller("submissions written") as told:
        if leaderboard is not None:
            leaderboard = recorded_board(reader, leaderboard)
        _require_some(reader, None if to_stdout else file, leaderboard, user)
        counts: dict[str, int]
        if kind == "parquet":
            counts = {"rows": export_parquet(reader, file, leaderboard, user, told)}
        else:
            ascii_only = to_stdout and not takes_unicode(sys.stdout)
            target = None if to_stdout else file
            written = export_lines(reader, target, leaderboard, user, told, ascii_only=ascii_only)
            counts = {"submissions": written.submissions, "calibrations": written.calibrations}
    if as_json:
        print_json({"file": str(file), "format": kind, **counts})
    elif not to_stdout:
        shown = " and ".join(f"{count} {what}" for what, count in counts.items() if count or what != "calibrations")
        click.echo(f"wrote {shown} to {file}")


def _require_some(reader: Reader, file: Path | None, leaderboard: str | None, user: str | None) -> None:
    """Refuse a user without submissions, and to write a file without any in the place of one that may have some."""
    where = f" on {leaderboard}" if leaderboard is not None else ""
    if user is not None:
        if reader.latest_submission(user, leaderboard) is None:
            raise RequestError(f"{user} has no submissions{where}", where="--user")
        return
    some = bool(reader.leaderboards()) if leaderboard is None else reader.has_leaderboard(leaderboard)
    if not some and file is not None and file.is_file() and file.stat().st_size:
        raise RequestError(
            f"the store has no submissions{where} to put in its place", where=str(file), hint="Name another file."
        )


def format_of(file: Path, format_name: str | None) -> str:
    """The format that the option or the name says."""
    if format_name is not None:
        return format_name
    name = file.name.removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    if name.endswith(".parquet"):
        return "parquet"
    raise RequestError(
        "the name does not say which format", where=str(file), allowed=".jsonl, .jsonl.gz, .parquet",
        hint="Or say it: --format jsonl.",
    )  # fmt: skip


@contextmanager
def teller(what: str) -> Iterator[Callable[[int], None]]:
    """A function to call with how much is done: one line on standard error every few seconds."""
    begin = last = time.monotonic()

    def told(count: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TELL_EVERY_S:
            last = now
            say(f"  {count} {what}, {count / (now - begin):.0f} a second")

    yield told

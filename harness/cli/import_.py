"""`harness import FILE`: published submissions, or what another store exported."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import error_document, json_option, print_json, say
from harness.cli.export import format_of, format_option, teller
from harness.cli.usage import BadValue, Misuse
from harness.errors import ExitStatus, HarnessError, MachineError, RequestError, did_you_mean, disk_fault
from harness.files import files_beside
from harness.wording import counted

if TYPE_CHECKING:
    from harness.store.bulk import Added

BAD_ROWS_SHOWN = 20
_STDIN = Path("/dev/stdin")
_GOES_ON = "What was added stays, and the same command goes on from there: nothing is added twice."


class InputFile(click.Path):
    """The path of a file that is there; `-` is standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(_STDIN if value == "-" else value, param, ctx)
        except click.BadParameter as error:
            hint = "" if os.path.lexists(value) else did_you_mean(os.fspath(value), files_beside(os.fspath(value)))
            raise BadValue(error.message.rstrip("."), param, ctx, hint=hint) from None


@click.command()
@click.argument("file", type=InputFile(exists=True, dir_okay=False, path_type=Path))
@format_option
@json_option
def import_command(file: Path, format_name: str | None, as_json: bool) -> int:
    """Read submissions from FILE into the store; `-` is standard input, which takes JSON lines.

    A parquet file of the published competition data gives submissions to browse and to compare in code; their scores
    are shown as imported and never ranked beside those measured here. JSON lines, as `harness export` writes them, give
    everything back, ranks and calibrations included, and are taken at their word: read only files whose origin you
    trust.

    What the store holds already is left as it is, so the same file twice adds nothing; of compilations and calibrations
    the newest counts. A bad row is reported and the rest goes in.

    \b
    harness import nvidia_nvfp4_submissions.parquet
    harness import backup.jsonl.gz

    A file that is cut short goes in as far as it is whole; import the whole one when you have it. Whatever else ends an
    import, what it added stays, and the same command goes on from there.

    Exit status: 0 all went in; 2 some rows were bad, or the file can't be read to its end; 3 this machine can't do it.
    """
    from harness.store.bulk import open_bulk
    from harness.transfer.errors import BadRow, DamagedFile
    from harness.transfer.import_ import coming, import_lines, import_parquet

    bad: list[BadRow] = []
    count = 0

    def report(row: BadRow) -> None:
        nonlocal count
        count += 1
        if len(bad) < BAD_ROWS_SHOWN:
            bad.append(row)
            which = f" (submission_id {row.submission_id})" if row.submission_id is not None else ""
            say(f"{file}: {unit} {row.number}{which}: {row.what}")

    kind = "jsonl" if file == _STDIN and format_name is None else format_of(file, format_name)
    parquet = kind == "parquet"
    if parquet and file == _STDIN:
        raise Misuse("standard input takes JSON lines alone, without --format parquet", where="-")
    unit = "row" if parquet else "line"
    begin = time.monotonic()
    added: Added | None = None
    ended: HarnessError | None = None  # by what, before its end
    try:
        with open_bulk(coming=coming(file) if parquet else 0) as writer, teller(f"{unit}s read") as told:
            added = writer.added
            try:
                (import_parquet if parquet else import_lines)(writer, file, report, told)
            except DamagedFile as error:
                ended = error
    except (Exception, KeyboardInterrupt) as error:
        if added is None or isinstance(error, RequestError):  # then nothing was added
            raise
        ended = error if isinstance(error, MachineError) else disk_fault(error)
        if ended is None:
            say(f"{file}: {_summary(added, time.monotonic() - begin, unit, count)}. {_GOES_ON}")
            raise
    assert added is not None
    seconds = time.monotonic() - begin
    if count > len(bad):
        say(f"{file}: … and {counted(count - len(bad), f'further bad {unit}')}")
    summary = _summary(added, seconds, unit, count)
    if ended is not None:
        ended = _with_summary(ended, summary)
    if as_json:
        document: dict[str, Any] = {
            "file": str(file),
            "submissions_added": added.submissions,
            "evaluations_added": added.evaluations,
            "compilations_added": added.compilations,
            "calibrations_added": added.calibrations,
            "known": added.known,
            "bad": count,
            "bad_rows": [{"row": row.number, "submission_id": row.submission_id, "message": row.what} for row in bad],
            "seconds": seconds,
        }
        if ended is not None:
            say(f"harness: {ended}")
        print_json(document if ended is None else document | error_document(ended))
    elif ended is not None:
        raise ended
    else:
        click.echo(summary)
    if ended is not None:
        return ended.exit_status
    return ExitStatus.BAD_REQUEST if count else ExitStatus.PASSED


def _with_summary(error: HarnessError, summary: str) -> HarnessError:
    """The error that ended an import, told with what it left."""
    what = f"{error.what}; up to there: {summary}"
    if isinstance(error, MachineError):
        return MachineError(what, where=error.where, hint=f"{error.hint}\n{_GOES_ON}".strip())
    hint = "What was added stays. Get the whole file and import that: nothing is added twice."
    return RequestError(what, where=error.where, hint=hint)


def _summary(added: Added, seconds: float, unit: str, bad: int) -> str:
    further = ((added.compilations, "compilation"), (added.calibrations, "calibration"))
    more = "".join(f", {counted(number, noun)}" for number, noun in further if number)
    return (
        f"added {counted(added.submissions, 'submission')} and {counted(added.evaluations, 'evaluation')}{more} in "
        f"{seconds:.1f} s; {counted(added.known, unit)} added nothing new; {bad} bad"
    )

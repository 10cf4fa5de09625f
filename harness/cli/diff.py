"""`harness diff [OLD] [NEW]`: what changed between two submissions, in code and in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, stdout_console, user_option
from harness.cli.document import figure_us, interval_us, plain_value, submission_document
from harness.cli.formatting import (
    format_case,
    format_class,
    format_ratio,
    format_time,
    printable,
)
from harness.cli.lookup import find_submission, recorded_board
from harness.cli.report import plain_table, write
from harness.errors import RequestError
from harness.evaluation.record import Status
from harness.history.code_diff import DiffLine, LineKind, code_diff
from harness.history.comparison import CaseChange, Change, Comparison, Verdict, compare
from harness.measure.statistics import Figure
from harness.store import EvaluationRow, Reader, SubmissionRow, open_reader

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LINE_STYLE = {LineKind.ADDED: "green", LineKind.REMOVED: "red", LineKind.FOLD: "dim", LineKind.SAME: ""}
_VERDICT_STYLE = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "", Verdict.UNSURE: "yellow"}


@dataclass(frozen=True)
class Side:
    """One operand: a submission, or a file on disk (then `submission` is None and it has no figures)."""

    source: str
    file_name: str
    submission: SubmissionRow | None
    evaluations: Sequence[EvaluationRow] = ()

    @property
    def title(self) -> str:
        if self.submission is None:
            return printable(f"{self.file_name} (file)")
        s = self.submission
        return printable(f"{s.id} · {s.leaderboard} · {s.file_name} · {s.user}")


@click.command()
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--leaderboard", help="Whose last two submissions to take when none is named.")
@user_option
@json_option
def diff_command(old: str | None, new: str | None, leaderboard: str | None, user: str, as_json: bool) -> None:
    """Show what changed between two submissions, in code and figures.

    Without operands: your last two on the board you used last. One id: that submission against the one before it. One
    file: the file against your last submission on its board. An operand that is all digits is an id.

    \b
    harness diff
    harness diff 11 12
    harness diff 12 kernel.py --json
    """
    with open_reader() as reader:
        if leaderboard is not None:
            leaderboard = recorded_board(reader, leaderboard)
        before, after = _sides(reader, old, new, leaderboard, user)
    lines = code_diff(before.source, after.source)
    comparison = _compare(before, after)
    if as_json:
        print_json(_document(before, after, lines, comparison))
        return
    console = stdout_console()
    write(console, f"old  {before.title}", style="bold")
    write(console, f"new  {after.title}", style="bold")
    console.print()
    _write_code(console, lines)
    if comparison is not None:
        console.print()
        _write_figures(console, after, comparison)


def _sides(reader: Reader, old: str | None, new: str | None, leaderboard: str | None, user: str) -> tuple[Side, Side]:
    if old is not None and new is not None:
        return _operand(reader, old), _operand(reader, new)
    if old is None:
        latest = reader.latest_submission(user, leaderboard)
        if latest is None:
            where = f" on {leaderboard}" if leaderboard else ""
            raise RequestError(
                f"{printable(user)} has no submissions{where}",
                hint="`harness submit FILE` makes one; --user names somebody else.",
            )
        return _predecessor(reader, latest), _of_submission(reader, latest)
    if _is_id(old):
        submission = find_submission(reader, int(old))
        return _predecessor(reader, submission), _of_submission(reader, submission)
    file = _of_file(old)
    board = leaderboard or recorded_board(reader, _board_of(file))
    latest = reader.latest_submission(user, board)
    if latest is None:
        raise RequestError(f"{printable(user)} has no submissions on {board} to compare the file with", where=old)
    return _of_submission(reader, latest), file


def _operand(reader: Reader, operand: str) -> Side:
    if _is_id(operand):
        return _of_submission(reader, find_submission(reader, int(operand)))
    return _of_file(operand)


def _is_id(operand: str) -> bool:
    return operand.isascii() and operand.isdigit()


def _of_submission(reader: Reader, submission: SubmissionRow) -> Side:
    return Side(
        reader.source(submission.sha256),
        submission.file_name,
        submission,
        reader.evaluations(submission.id, with_rank=False),
    )


def _predecessor(reader: Reader, submission: SubmissionRow) -> Side:
    if submission.previous is None:
        raise RequestError(
            f"submission {submission.id} is the first of {printable(submission.user)} on {submission.leaderboard}",
            hint="Name two: `harness diff OLD NEW`, each an id or a file.",
        )
    return _of_submission(reader, find_submission(reader, submission.previous))


def _of_file(operand: str) -> Side:
    try:
        return Side(Path(operand).read_text(encoding="utf-8"), operand, None)
    except UnicodeDecodeError as error:
        raise RequestError("the file is not UTF-8 text", where=operand) from error
    except OSError as error:
        raise RequestError(
            f"can't be read: {error.strerror}", where=operand, allowed="a submission's id or a file"
        ) from error


def _board_of(file: Side) -> str:
    from harness.boards.directives import parse_directives

    board = parse_directives(file.source, file.file_name).leaderboard
    if board is None:
        raise RequestError(
            "the file's header names no board", where=file.file_name, hint="Say which with --leaderboard BOARD."
        )
    return board


def _compare(old: Side, new: Side) -> Comparison | None:
    """The figures of the newest evaluations that may be compared; None when a side was never evaluated."""
    if old.submission is None or new.submission is None or not old.evaluations or not new.evaluations:
        return None
    comparisons = [
        compare(before, after, old.submission.leaderboard, new.submission.leaderboard)
        for after in reversed(new.evaluations)
        for before in reversed(old.evaluations)
    ]
    return next((each for each in comparisons if each.cases), comparisons[0])


def _write_code(console: Console, lines: Sequence[DiffLine]) -> None:
    if not lines:
        write(console, "The code is the same.")
    for line in lines:
        write(console, printable(str(line)), style=_LINE_STYLE[line.kind])


def _write_figures(console: Console, new: Side, comparison: Comparison) -> None:
    assert new.submission is not None
    if comparison.refusal:
        write(console, f"No comparison: {printable(comparison.refusal)}.", style="yellow")
        return
    if not comparison.cases:
        write(console, "Neither was benchmarked, so there are no figures to compare.")
        return
    write(console, format_class(new.evaluations[-1].rank_class(new.submission.leaderboard)))
    console.print(_table(comparison))
    for note in comparison.notes:
        write(console, note, style="dim")


def _table(comparison: Comparison) -> Table:
    from rich.text import Text

    table = plain_table()
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("benchmark")
    table.add_column("old", justify="right", no_wrap=True)
    table.add_column("new", justify="right", no_wrap=True)
    table.add_column("new/old", justify="right")
    table.add_column("verdict", no_wrap=True)
    for case in comparison.cases:
        index = case.new_index if case.new_index is not None else case.old_index
        table.add_row(
            str(index),
            Text(format_case(case.spec)),
            _time_or_status(case.old, case.old_status),
            _time_or_status(case.new, case.new_status),
            Text(_ratio_text(case.change)),
            _verdict_text(case.change),
        )
    if comparison.score is not None:
        table.add_section()
        score = comparison.score
        table.add_row(
            "",
            "score",
            format_time(score.old),
            format_time(score.new),
            Text(_ratio_text(score)),
            _verdict_text(score),
        )
    return table


def _time_or_status(figure: Figure | None, status: Status | None) -> str:
    if figure is not None:
        return format_time(figure)
    return "not run" if status is None else "–" if status is Status.PASSED else status.value


def _ratio_text(change: Change | None) -> str:
    return "" if change is None else format_ratio(change.ratio, change.ratio_interval)


def _verdict_text(change: Change | None) -> Any:
    from rich.text import Text

    return Text("") if change is None else Text(change.verdict.value, style=_VERDICT_STYLE[change.verdict])


def _document(old: Side, new: Side, lines: Sequence[DiffLine], comparison: Comparison | None) -> dict[str, Any]:
    return {
        "old": _side_part(old),
        "new": _side_part(new),
        "code": [str(line) for line in lines],
        "refusal": comparison.refusal or None if comparison else None,
        "score": _change_part(comparison.score) if comparison and comparison.score else None,
        "cases": [_case_part(case) for case in comparison.cases] if comparison else [],
        "notes": list(comparison.notes) if comparison else [],
    }


def _side_part(side: Side) -> dict[str, Any]:
    if side.submission is None:
        return {"id": None, "file_name": side.file_name}
    return submission_document(side.submission)


def _case_part(case: CaseChange) -> dict[str, Any]:
    return {
        "spec": {key: plain_value(value) for key, value in case.spec.items()},
        "old_status": case.old_status.value if case.old_status else None,
        "new_status": case.new_status.value if case.new_status else None,
        "old_us": figure_us(case.old),
        "old_ci_us": interval_us(case.old),
        "new_us": figure_us(case.new),
        "new_ci_us": interval_us(case.new),
        **_ratio_part(case.change),
    }


def _change_part(change: Change) -> dict[str, Any]:
    return {
        "old_us": figure_us(change.old),
        "old_ci_us": interval_us(change.old),
        "new_us": figure_us(change.new),
        "new_ci_us": interval_us(change.new),
        **_ratio_part(change),
    }


def _ratio_part(change: Change | None) -> dict[str, Any]:
    interval = change.ratio_interval if change else None
    return {
        "ratio": change.ratio if change else None,
        "ratio_ci": [interval.low, interval.high] if interval else None,
        "verdict": change.verdict.value if change else None,
    }

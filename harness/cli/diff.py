"""`harness diff [OLD] [NEW]`: what changed between two submissions, in code, in figures and in techniques."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import json_option, print_json, say, stdout_console, user_option
from harness.cli.diff_document import diff_document
from harness.cli.diff_screen import Difference, render_difference
from harness.cli.formatting import printable, printable_name
from harness.cli.lookup import recorded_board
from harness.cli.operands import (
    Side,
    board_of_file,
    both_operands,
    common_board,
    header_board,
    of_file,
    of_submission,
    predecessor,
    submission_named,
)
from harness.cli.output_file import OutputFile
from harness.errors import ExitStatus, HarnessError, RequestError
from harness.history.code_diff import code_diff
from harness.history.comparison import Comparison, compare
from harness.store import EvaluationRow, Reader, open_reader

if TYPE_CHECKING:
    from harness.compiling.comparison import CompilationChange
    from harness.history.techniques_of import SourceTechniques
    from harness.techniques import Finding


@click.command()
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--leaderboard", help="Whose last two submissions to take when none is named.")
@user_option
@click.option("--measure", is_flag=True, help="Run both now, in turns, and compare these times (as `compare` does).")
@click.option("--html", "page", type=OutputFile(), metavar="FILE", help="Write it as a page too.")
@json_option
def diff_command(
    old: str | None,
    new: str | None,
    leaderboard: str | None,
    user: str,
    measure: bool,
    page: Path | None,
    as_json: bool,
) -> int:
    """Show what changed between two submissions, in code, figures and techniques.

    Without operands: your last two on the board you used last. One id: that submission against the one before it. One
    file: the file against your last submission on its board. An operand that is all digits is an id; one that is no
    file may be a tag of the user's (see `harness note`).

    \b
    harness diff
    harness diff 11 12
    harness diff best 12
    harness diff 12 kernel.py --measure
    harness diff 11 12 --html what_changed.html
    """
    with open_reader() as reader:
        if leaderboard is not None:
            leaderboard = recorded_board(reader, leaderboard)
        before, after = _sides(reader, old, new, leaderboard, user)
        board = common_board(reader, (before, after), leaderboard) if measure else ""
        techniques = _techniques(reader, before, after)
        compilations = _compilations(reader, before, after)
        boards = {} if measure else _boards(reader, (before, after))
    comparison, compared = _compare(before, after)
    difference = Difference(
        old=before,
        new=after,
        lines=tuple(code_diff(before.source, after.source)),
        comparison=comparison,
        compared=compared,
        old_techniques=techniques[0],
        new_techniques=techniques[1],
        compilations=compilations,
        boards_differ=f"the boards differ: {', '.join(boards.values())}" if len(boards) > 1 else "",
        can_measure=measure or (len(boards) == 1 and _is_here(*boards)),
    )
    if measure:
        from dataclasses import replace

        from harness.cli.comparing import measure as measure_now

        difference = replace(difference, measured=measure_now(board, before, after))
    if page is not None:
        _write_page(page, difference)
    if as_json:
        print_json(diff_document(difference))
    else:
        render_difference(stdout_console(), difference)
    if difference.measured is None:
        return ExitStatus.PASSED
    from harness.cli.compare import exit_status

    return exit_status(difference.measured)


def _sides(reader: Reader, old: str | None, new: str | None, leaderboard: str | None, user: str) -> tuple[Side, Side]:
    if old is not None and new is not None:
        return both_operands(reader, old, new, user, leaderboard)
    if old is None:
        latest = reader.latest_submission(user, leaderboard)
        if latest is None:
            where = f" on {leaderboard}" if leaderboard else ""
            raise RequestError(
                f"{printable(user)} has no submissions{where}",
                hint="`harness submit FILE` makes one; --user names somebody else.",
            )
        return predecessor(reader, latest), of_submission(reader, latest)
    if (submission := submission_named(reader, old, user, leaderboard)) is not None:
        return predecessor(reader, submission), of_submission(reader, submission)
    file = of_file(old)
    board = leaderboard or recorded_board(reader, board_of_file(file))
    latest = reader.latest_submission(user, board)
    if latest is None:
        raise RequestError(f"{printable(user)} has no submissions on {board} to compare the file with", where=old)
    return of_submission(reader, latest), file


def _boards(reader: Reader, sides: Sequence[Side]) -> dict[str, str]:
    """The boards that the sides name, each with words on which side names it."""
    boards: dict[str, str] = {}
    for side in sides:
        try:
            named = header_board(side)
        except HarnessError:  # of a header that no run would take: a difference it has all the same
            named = None
        if named is not None:
            boards.setdefault(_own_name(reader, named), f"{side.short} is for {printable_name(named)}")
    return boards


def _own_name(reader: Reader, board: str) -> str:
    try:
        return recorded_board(reader, board)
    except HarnessError:
        return board


def _is_here(board: str) -> bool:
    """Whether a board can be run, as far as its name says: what was recorded or imported may be of any."""
    from harness.boards.find import find_board

    try:
        find_board(board)
    except HarnessError:
        return False
    return True


def _compare(old: Side, new: Side) -> tuple[Comparison | None, tuple[EvaluationRow, EvaluationRow] | None]:
    """The figures of the newest evaluations that may be compared, and these; None when a side was never evaluated."""
    if old.submission is None or new.submission is None or not old.evaluations or not new.evaluations:
        return None, None
    boards = old.submission.leaderboard, new.submission.leaderboard
    pairs = [(before, after) for after in reversed(new.evaluations) for before in reversed(old.evaluations)]
    compared = [(compare(before, after, *boards), (before, after)) for before, after in pairs]
    with_cases = next((each for each in compared if each[0].cases), None)
    return with_cases or next((each for each in compared if each[0].score), compared[0])


def _compilations(reader: Reader, old: Side, new: Side) -> tuple[CompilationChange, ...]:
    """What compile mode said of both, for every architecture that both were compiled for."""
    if old.submission is None or new.submission is None:
        return ()
    from harness.compiling.kept import changes_of

    return changes_of(reader, old.submission, new.submission)


def _techniques(reader: Reader, old: Side, new: Side) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    from harness.history.techniques_of import SourceTechniques

    known = SourceTechniques(reader)
    return _techniques_of(known, old), _techniques_of(known, new)


def _techniques_of(known: SourceTechniques, side: Side) -> tuple[Finding, ...]:
    if side.submission is None:
        from harness.techniques import extract

        return extract(side.source, side.file_name)
    return known.of(side.submission.sha256, side.file_name) or ()


def _write_page(path: Path, difference: Difference) -> None:
    from harness.cli.diff_page import difference_page
    from harness.files import unwritable, write_in_place_of

    try:
        write_in_place_of(path, difference_page(difference).encode("utf-8"))
    except OSError as error:
        raise unwritable(path, error) from error
    say(f"wrote {path}")

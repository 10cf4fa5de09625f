"""`harness history [BOARD]`: a user's submissions, newest first, and how each score stands to the ones before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, stdout_console, user_option
from harness.cli.document import figure_us, interval_us, reason_document
from harness.cli.formatting import format_change, format_class, format_moment, format_time, printable, sparkline
from harness.cli.lookup import recorded_board
from harness.cli.report import plain_table, write
from harness.evaluation.record import Mode, Status
from harness.history.progress import Step, steps
from harness.measure.ranking import RankClass
from harness.store import open_reader

if TYPE_CHECKING:
    from rich.table import Table

TREND_POINTS = 40


@click.command()
@click.argument("board", required=False)
@user_option
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows a table; 0 for all.")
@json_option
def history_command(board: str | None, user: str, limit: int, as_json: bool) -> None:
    """Show your submissions, newest first, on one board or on all.

    `change` is the score against your submission before it, `of best` against the best before it; both only among
    scores of the same board, grid, device and protocol.

    \b
    harness history
    harness history cholesky --user ada --limit 0
    """
    with open_reader() as reader:
        if board is not None:
            board = recorded_board(reader, board)
        progress = steps(reader.history(user, board))
    if as_json:
        print_json({"user": user, "submissions": [_step_part(step) for step in reversed(progress)]})
        return
    console = stdout_console()
    if not progress:
        where = f" on {board}" if board else ""
        write(console, f"{printable(user)} has no submissions{where} yet. `harness submit FILE` makes the first.")
    for number, ((leaderboard, rank_class), section) in enumerate(_sections(progress).items()):
        if number:
            console.print()
        write(console, f"{printable(leaderboard)} · {printable(user)}", style="bold")
        write(console, format_class(rank_class) if rank_class else "not evaluated")
        console.print(_table(section[-limit:]))  # all of them for 0
        if limit and len(section) > limit:
            write(console, f"… {len(section) - limit} older; --limit 0 shows them", style="dim")
        scores = [step.row.score.value_ns for step in section if step.row.score is not None and step.row.comparable]
        if len(scores) > 1:
            write(console, f"trend  {sparkline(scores[-TREND_POINTS:])}  score, oldest to newest; lower is faster")


def _sections(progress: Sequence[Step]) -> dict[tuple[str, RankClass | None], list[Step]]:
    """The rows by board and class, each oldest first; the section with the newest row first."""
    sections: dict[tuple[str, RankClass | None], list[Step]] = {}
    for step in reversed(progress):
        sections.setdefault((step.row.leaderboard, step.row.rank_class), []).insert(0, step)
    return sections


def _table(section: Sequence[Step]) -> Table:
    from rich.text import Text

    table = plain_table()
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("when", no_wrap=True)
    table.add_column("file", overflow="fold")
    table.add_column("mode", no_wrap=True)
    table.add_column("result", justify="right", overflow="fold")
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("of best", justify="right", no_wrap=True)
    for step in reversed(section):
        row = step.row
        table.add_row(
            str(row.id),
            format_moment(row.created_at),
            Text(printable(row.file_name)),
            row.mode.value if row.mode else "",
            Text(_result(step), style="red" if _went_wrong(step) else ""),
            "" if step.against_previous is None else format_change(step.against_previous),
            _of_best(step),
        )
    return table


def _result(step: Step) -> str:
    row = step.row
    if row.status is None:
        return "not evaluated"
    if row.status is not Status.PASSED:
        return row.status.value
    text = format_time(row.score) if row.score is not None else row.status.value
    if row.mode is Mode.LEADERBOARD and row.rank_reason is not None:
        text += f"\n{row.rank_reason.code.value.replace('_', ' ')}"
    return text


def _went_wrong(step: Step) -> bool:
    return step.row.status not in (None, Status.PASSED, Status.RUNNING)


def _of_best(step: Step) -> str:
    if step.row.comparable is None:
        return ""
    if step.against_best is None:
        return "first"
    return "new best" if step.against_best < 1 else format_change(step.against_best)


def _step_part(step: Step) -> dict[str, Any]:
    row = step.row
    return {
        "id": row.id,
        "leaderboard": row.leaderboard,
        "file_name": row.file_name,
        "sha256": row.sha256,
        "created_at": row.created_at.isoformat(),
        "evaluation": row.evaluation_id,
        "mode": row.mode.value if row.mode else None,
        "protocol": row.rank_class.protocol.value if row.rank_class else None,
        "grid": row.rank_class.grid.value if row.rank_class else None,
        "device": row.rank_class.device if row.rank_class else None,
        "isolation": row.rank_class.isolation.value if row.rank_class else None,
        "status": row.status.value if row.status else None,
        "reason": reason_document(row.reason or row.rank_reason),
        "score_us": figure_us(row.score),
        "score_ci_us": interval_us(row.score),
        "against_previous": step.against_previous,
        "against_best": step.against_best,
    }

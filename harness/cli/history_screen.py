"""A section of the history as a screen, and its rows as documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cli.document import figure_us, interval_us, reason_document
from harness.cli.formatting import (
    format_change,
    format_indices,
    format_moment,
    format_ns,
    format_spread,
    format_time,
    printable_name,
    sparkline,
)
from harness.cli.layout import Column, fitted_table
from harness.cli.note import format_tags, note_document
from harness.cli.writing import print_table, write
from harness.evaluation.left_out import cases_that_ran
from harness.evaluation.record import Mode, Protocol, ReasonCode, Status
from harness.history.progress import Step, best_run, like_the_newest
from harness.measure.ranking import Rank
from harness.store import HistoryRow, Note
from harness.store.location import unisolated_allowed
from harness.wording import more_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.history.technique_rows import TechniqueRow

TREND_POINTS = 40
CHANGES_SHOWN = 4


@dataclass(frozen=True)
class Line:
    """A step with what belongs to it. `changes` is None where there is nothing to compare with, or it was not read."""

    step: Step
    rank_now: Rank | None
    changes: tuple[TechniqueRow, ...] | None
    tags: tuple[str, ...]
    notes: tuple[Note, ...]


def write_lines(console: Console, lines: Sequence[Line]) -> None:
    """Rows of several boards in one table, newest first, and the remarks on them."""
    print_table(console, _table(lines, console.width, with_board=True))
    _write_unranked(console, lines)
    _write_changes(console, lines)


def write_section(console: Console, lines: Sequence[Line], section: Sequence[Step]) -> None:
    """The table of the shown rows, newest first; the trend over the whole section; what changed in each."""
    print_table(console, _table(lines, console.width))
    if len(section) > len(lines):
        write(console, more_words(len(section) - len(lines), "older"), style="dim")
    _write_unranked(console, lines)
    _write_trend(console, section)
    _write_changes(console, lines)


def _table(lines: Sequence[Line], width: int, *, with_board: bool = False) -> Table:
    """With a board there is no rank: that of each board is told elsewhere."""
    from rich.text import Text

    with_rank = not with_board and any(line.step.row.rank_then is not None for line in lines)
    columns = [
        Column("id", right=True),
        Column("when", goes=1),
        *([Column("board", of_names=True)] if with_board else []),
        Column("file", of_names=True),
        Column("score", right=True),
        Column("95 %", right=True, goes=4),  # the last to go: a score means little without it
        Column("change", right=True),
        Column("of best", right=True, goes=3),
        *([Column("rank", goes=2)] if with_rank else []),
    ]
    rows: list[list[str | Text]] = []
    for line in reversed(lines):
        step, row = line.step, line.step.row
        rows.append(
            [
                str(row.id),
                format_moment(row.created_at),
                *([printable_name(row.leaderboard)] if with_board else []),
                printable_name(row.file_name),
                Text(_result(step), style="red" if _went_wrong(step) else ""),
                format_spread(row.score, _protocol(row)),
                _change(step),
                _of_best(step),
                *([_rank(line)] if with_rank else []),
            ]
        )
    return fitted_table(columns, rows, width)


def _protocol(row: HistoryRow) -> Protocol | None:
    return None if row.rank_class is None else row.rank_class.protocol


def _result(step: Step) -> str:
    """The score, or how it ended: `1 of 2 cases` where it passed on these alone, which makes no score; with its mode
    where that is not the usual one: `test failed`."""
    row = step.row
    if row.status is None:
        return "not evaluated"
    if row.score is not None:
        return format_time(row.score, _protocol(row))
    if row.status is Status.PASSED and (part := cases_that_ran(row.rank_reason)):
        return part
    return row.status.value if row.mode in (None, Mode.LEADERBOARD) else f"{row.mode.value} {row.status.value}"


def _went_wrong(step: Step) -> bool:
    return step.row.status not in (None, Status.PASSED, Status.RUNNING)


def _change(step: Step) -> str:
    if step.against_previous is None:
        return ""
    return format_change(step.against_previous, unsure=step.unsure_of_previous)


def _of_best(step: Step) -> str:
    if step.against_best is None:
        return "first" if step.is_best else ""
    if step.is_best:
        return "~ new best" if step.unsure_of_best else "new best"
    return format_change(step.against_best, unsure=step.unsure_of_best)


def legend(lines: Sequence[Line], *, with_rank: bool = True) -> str:
    """What the columns of these tables mean, as far as they show anything."""
    steps = [line.step for line in lines]
    told = []
    if any(step.against_previous is not None for step in steps):
        told.append("change: against the submission before it; of best: against the best score before it")
    if any(step.unsure_of_previous or step.unsure_of_best for step in steps):
        told.append("~: within the noise of the runs")
    if with_rank and any(_rank(line) for line in lines):
        moved = any("→" in _rank(line) for line in lines)
        told.append(
            "rank: the place that the score held among the other users' best" + (", then → now" if moved else "")
        )
    return "; ".join(told)


def _write_unranked(console: Console, lines: Sequence[Line]) -> None:
    """Why passed runs take no part in the ranking, one line for all of them. Those without a score that are of another
    mode, or of a part of the grid, say so themselves."""
    passed = [line.step.row for line in lines if line.step.row.status is Status.PASSED]
    ids: dict[str, list[int]] = {}
    for row in passed:
        if why := _why_unranked(row):
            ids.setdefault(why, []).append(row.id)
    if len(lines) > 1 and [len(of) for of in ids.values()] == [len(passed)]:
        write(console, f"none of them ranks: {next(iter(ids))}", style="dim")
    elif ids:
        told = ", ".join(f"{format_indices(dict.fromkeys(of))} ({why})" for why, of in ids.items())
        write(console, f"not ranked: {told}", style="dim")


def _why_unranked(row: HistoryRow) -> str:
    if cases_that_ran(row.rank_reason):
        return ""
    if row.mode not in (None, Mode.LEADERBOARD):
        return "" if row.score is None else f"{row.mode.value} mode"
    if row.rank_reason is None or (row.rank_reason.code is ReasonCode.NOT_ISOLATED and unisolated_allowed()):
        return ""
    return row.rank_reason.code.value.replace("_", " ")


def _rank(line: Line) -> str:
    """`3`, or `1 → 3` when others have passed it since."""
    then, now = line.step.row.rank_then, line.rank_now
    if then is None:
        return ""
    return str(then) if now is None or now.number == then else f"{then} → {now.number}"


def _write_trend(console: Console, section: Sequence[Step]) -> None:
    scored = like_the_newest([step.row for step in reversed(section)])[::-1]
    scores = [row.score.value_ns for row in scored if row.score is not None][-TREND_POINTS:]
    if len(scores) < 2:
        return
    text = f"trend  {sparkline(scores)}  {format_ns(scores[0])} → {format_ns(scores[-1])}, oldest to newest"
    if (best := best_run(scored)) is not None:
        text += f"; best run {format_time(best.score, _protocol(best))} by {best.id}"
    write(console, text)


def _write_changes(console: Console, lines: Sequence[Line]) -> None:
    """A line for each submission that does something else than the one before it, or that carries a remark."""
    from harness.history.technique_rows import row_words

    seen: set[int] = set()
    told = []
    for line in reversed(lines):
        words = [row_words(row) for row in line.changes or ()]
        if len(words) > CHANGES_SHOWN:
            words = [*words[: CHANGES_SHOWN - 1], f"{len(words) - CHANGES_SHOWN + 1} more"]
        text = "; ".join(words)
        remarks = [format_tags(list(line.tags))] if line.tags else []
        remarks += [f"“{note.text}”" for note in line.notes]
        whole = "   ".join(filter(None, [text, *remarks]))
        if whole and line.step.row.id not in seen:
            told.append((line.step.row.id, whole))
        seen.add(line.step.row.id)
    if not told:
        return
    from rich.table import Table
    from rich.text import Text

    console.print()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for submission_id, whole in told:
        grid.add_row(str(submission_id), Text(printable_name(whole)))
    print_table(console, grid)


# -- the document -----------------------------------------------------------------------------------------------------


def history_document(line: Line) -> dict[str, Any]:
    """One row of `history --json`. `lost` and `gained` are None where there is nothing to compare with."""
    from harness.techniques.codec import finding_document

    step, row = line.step, line.step.row
    changes = line.changes
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
        "new_best": step.is_best,
        "within_noise": {"previous": step.unsure_of_previous, "best": step.unsure_of_best},
        "rank_then": row.rank_then,
        "rank_now": None if line.rank_now is None else line.rank_now.number,
        "lost": None if changes is None else [finding_document(each.old) for each in changes if each.old is not None],
        "gained": None if changes is None else [finding_document(each.new) for each in changes if each.new is not None],
        "tags": list(line.tags),
        "notes": [note_document(note) for note in line.notes],
    }

"""The history of a user on many boards: a row a board, and the latest submissions of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.boards.board import GridName
from harness.cli.formatting import format_device, format_moment, format_time, printable, printable_name, sparkline
from harness.cli.history_screen import Line, legend, write_lines
from harness.cli.layout import NARROW, WIDE, Column, fitted_table
from harness.cli.writing import print_table, write
from harness.evaluation.record import Protocol
from harness.history.progress import Step, best_run, like_the_newest
from harness.measure.ranking import RankClass
from harness.store import HistoryRow, Reader
from harness.store.ranked import Place
from harness.wording import more_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TREND_POINTS = 24, 10
"""From `WIDE` columns on, and below."""


@dataclass(frozen=True)
class BoardLine:
    """What a user did on a board, as far as the scores are comparable. `best` is the run of the best score (see
    `may_be_best`), `ranked` the class of the newest score that took part in a ranking."""

    leaderboard: str
    submissions: int
    newest: HistoryRow
    of: RankClass | None
    best: HistoryRow | None
    ranked: RankClass | None
    scores_ns: list[float]


def board_lines(progress: Sequence[Step]) -> list[BoardLine]:
    """A line for each board, grid, device and protocol, the one used last first; the steps come oldest first.

    A submission whose evaluation never began stands among those of its board's newest one.
    """
    newest: dict[str, RankClass | None] = {}
    for step in progress:
        newest[step.row.leaderboard] = step.row.rank_class or newest.get(step.row.leaderboard)
    groups: dict[object, list[HistoryRow]] = {}
    for step in reversed(progress):
        of = step.row.rank_class or newest[step.row.leaderboard]
        groups.setdefault((step.row.leaderboard, of and _comparable(of)), []).append(step.row)
    return [_board_line(rows, newest[rows[0].leaderboard]) for rows in groups.values()]


def write_overview(
    console: Console, user: str, boards: Sequence[BoardLine], latest: Sequence[Line], limit: int,
    places: Mapping[RankClass, Place], submissions: int,
) -> None:  # fmt: skip
    """Both tables. `boards` are all lines, the newest first; `latest` those shown, the newest last; `places` of the
    ranked classes that are shown; `submissions` how many there are."""
    boards_in_all, total_lines = len({line.leaderboard for line in boards}), len(boards)
    boards = boards[: limit or None]
    write(console, f"{printable_name(user)} · {submissions} submissions on {boards_in_all} boards", style="bold")
    print_table(console, _table(boards, places, console.width))
    if total_lines > len(boards):
        write(console, more_words(total_lines - len(boards), "further line", "further lines"), style="dim")
    write(console, "\nlatest", style="bold")
    write_lines(console, latest)
    shown = len({line.step.row.id for line in latest})
    if submissions > shown:
        write(console, more_words(submissions - shown, "older"), style="dim")
    console.print()
    meaning = legend(latest, with_rank=False)
    if places:
        meaning = "; ".join(filter(None, [meaning, "rank: the place among the users of the board, now"]))
    if meaning:
        write(console, meaning, style="dim")
    write(console, f"`harness history {_to_type(boards[0].leaderboard)}` tells what changed in each", style="dim")


def _to_type(leaderboard: str) -> str:
    from shlex import quote

    return quote(printable(leaderboard))


def _board_line(newest_first: Sequence[HistoryRow], of: RankClass | None) -> BoardLine:
    scored = like_the_newest(newest_first)
    return BoardLine(
        leaderboard=newest_first[0].leaderboard,
        submissions=len({row.id for row in newest_first}),
        newest=newest_first[0],
        of=next((row.rank_class for row in newest_first if row.rank_class is not None), of),
        best=best_run(scored),
        ranked=next((row.rank_class for row in scored if row.rank_then is not None), None),
        scores_ns=[row.score.value_ns for row in reversed(scored) if row.score is not None],
    )


def _comparable(of: RankClass) -> tuple[object, ...]:
    return of.grid, of.device_kind, of.device, of.protocol


def _table(boards: Sequence[BoardLine], places: Mapping[RankClass, Place], width: int) -> Table:
    with_time, points = width >= NARROW, TREND_POINTS[width < WIDE]
    columns = [
        Column("board", of_names=True),
        Column("device", of_names=True),
        Column("subs", right=True),
        *([Column("last")] if with_time else []),
        Column("best", right=True),
        Column("rank", right=True),
        Column("trend"),
    ]
    rows = []
    for line in boards:
        place = None if line.ranked is None else places.get(line.ranked)
        protocol = None if line.of is None else line.of.protocol
        trend = line.scores_ns[-points:]
        rows.append(
            [
                printable_name(line.leaderboard),
                _device(line.of),
                str(line.submissions),
                *([format_moment(line.newest.created_at)] if with_time else []),
                "" if line.best is None else format_time(line.best.score, protocol),
                "" if place is None else f"{place.number} of {place.users}",
                sparkline(trend) if len(trend) > 1 else "",
            ]
        )
    return fitted_table(columns, rows, width)


def _device(of: RankClass | None) -> str:
    """The device, and what is out of the ordinary: another grid than the device's own, another protocol."""
    if of is None:
        return "not evaluated"
    words = [format_device(of.device)]
    if of.protocol is Protocol.HOSTED:
        words.append("imported")
    else:
        if (of.grid is GridName.CPU) != (of.device_kind == "cpu"):
            words.append(f"{of.grid.value} grid")
        if of.protocol is not Protocol.SEALED:
            words.append(of.protocol.value)
    return " · ".join(words)


def places_of(reader: Reader, user: str, boards: Sequence[BoardLine]) -> dict[RankClass, Place]:
    """Where the user stands now in the rankings of these lines."""
    return reader.places(user, [line.ranked for line in boards if line.ranked is not None])

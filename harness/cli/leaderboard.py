"""`harness leaderboard BOARD`: the ranking, one table for each class of comparable scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import WholeNumber, json_option, print_json, stdout_console
from harness.cli.document import figure_us, interval_us
from harness.cli.formatting import format_class, format_day, format_moment, format_spread, format_time, printable_name
from harness.cli.layout import NARROW, Column, fitted_table
from harness.cli.lookup import name_to_type, recorded_board
from harness.cli.usage import BadValue, Misuse
from harness.cli.writing import print_table, write
from harness.errors import HarnessError
from harness.evaluation.record import ReasonCode
from harness.measure.ranking import Entry, Rank, RankClass, ranks
from harness.store import Reader, open_reader
from harness.store.ranked import BoardClass
from harness.wording import more_words

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 2**32
"""A limit that no table reaches: no limit."""
_UNRANKED_WORDS = {
    ReasonCode.NOT_ISOLATED: "ran without isolation (HARNESS_RANK_UNISOLATED=1 ranks them; `harness doctor` helps)",
    ReasonCode.INTERPRETED: "ran by an interpreter",
    ReasonCode.UNSEALED_PROTOCOL: "by a protocol whose verdict a submission can forge",
    ReasonCode.CASES_LEFT_OUT: "with cases left out",
    ReasonCode.TOO_NOISY: "too noisy to be told from nothing",
    ReasonCode.IMPORTED: "imported from parquet files (--imported shows them)",
}


@dataclass(frozen=True)
class Ranking:
    """One class's table: the rows shown and how many there are. `before` has the ranks at an earlier moment, by user;
    None when nobody asked."""

    rank_class: RankClass
    entries: Sequence[Entry]
    ranks: Sequence[Rank]
    total: int
    before: Mapping[str, Rank] | None


class Moment(click.ParamType):
    """A date or a date with a time, as ISO 8601 writes them; local time unless it names a zone."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            return moment.astimezone()
        except (ValueError, OverflowError):
            raise BadValue(f"'{value}' is no date", param, ctx, allowed="2026-11-01, 2026-11-01T18:30") from None


@click.command()
@click.argument("board")
@click.option("--all", "show_all", is_flag=True, help="Every source of every user, not only each user's best.")
@click.option("--since", type=Moment(), metavar="DATE", help="Show what rank each user had then, local time.")
@click.option("--imported", is_flag=True, help="Show imported results too, ranked among themselves.")
@click.option("--limit", type=WholeNumber(0), default=50, show_default=True, help="Rows a table; 0 for all.")
@json_option
def leaderboard_command(
    board: str, show_all: bool, since: datetime | None, imported: bool, limit: int, as_json: bool
) -> None:
    """Show a board's ranking.

    Scores are ranked only among those of the same benchmarks, device, protocol and isolation. A user stands with the
    best of their sources; runs of one source count by their median. Ranks within the noise between runs are equal
    (`=`). `when` is local time.

    \b
    harness leaderboard cholesky
    harness leaderboard cholesky --since 2026-11-01
    harness leaderboard cholesky --all --json
    """
    if since is not None and since > datetime.now().astimezone():
        raise Misuse(f"--since {since:%Y-%m-%d %H:%M} is still to come: nobody has had a rank then", where="--since")
    if show_all and since is not None:
        raise Misuse("--since compares users' ranks, --all ranks sources: give one of the two", where="--since, --all")
    rows = None if as_json or not 0 < limit < MOST_ROWS else limit
    with open_reader() as reader:
        name = recorded_board(reader, board)
        rankings = [
            _ranking(reader, of, show_all, since, rows)
            for of in reader.board_classes(name)
            if of.ranks or (imported and of.unranked is ReasonCode.IMPORTED)
        ]
        unranked = reader.unranked(name)
    if imported:
        unranked.pop(ReasonCode.IMPORTED, None)
    if as_json:
        print_json(_document(name, rankings, unranked, since))
        return
    console = stdout_console()
    write(console, printable_name(name), style="bold")
    if not rankings:
        to_type = _to_type(name, board)
        if to_type is None:
            write(console, "No ranked submission. The board is not here, so none can be made; see `harness boards`.")
        else:
            write(console, "No ranked submission yet. To make the first:")
            console.print(f"harness submit FILE --leaderboard {to_type}", markup=False, soft_wrap=True)
    for ranking in rankings:
        rank_class = ranking.rank_class
        console.print()
        write(console, format_class(rank_class, [each.rank_class for each in rankings]))
        print_table(console, _table(ranking, since, console.width))
        if ranking.total > len(ranking.entries):
            write(console, more_words(ranking.total - len(ranking.entries), "more"), style="dim")
        if rank_class.delta:
            noise = f"scores within {100 * rank_class.delta:.2g} % share a rank ({rank_class.noise_words})"
            write(console, noise, style="dim")
    for reason, count in unranked.items():
        write(console, f"not ranked: {count} {_UNRANKED_WORDS.get(reason, reason.value)}", style="yellow")


def _to_type(name: str, typed: str) -> str | None:
    """What names the board on a command line; None where it is not here: one that has submissions need not be."""
    from harness.boards.find import find_board

    try:
        return name_to_type(find_board(typed), typed)
    except HarnessError:
        return None


def _ranking(reader: Reader, of: BoardClass, show_all: bool, since: datetime | None, limit: int | None) -> Ranking:
    # One row more than is shown: it may tie with the last one that is.
    asked = None if limit is None else limit + 1
    entries, total = reader.all_sources(of, asked) if show_all else reader.best_of_users(of, asked)
    places = ranks([entry.score.value_ns for entry in entries], of.rank_class.delta)
    before = None if since is None else reader.ranks_before(of, since)
    return Ranking(of.rank_class, entries[:limit], places[:limit], total, before)


def _table(ranking: Ranking, since: datetime | None, width: int) -> Table:
    protocol = ranking.rank_class.protocol
    with_time = width >= NARROW
    columns = [
        Column("rank", right=True),
        *([Column(format_day(since), right=True)] if since is not None else []),
        Column("user", of_names=True),
        Column("score", right=True),
        Column("95 %", right=True),
        Column("file", of_names=True),
        Column("id", right=True),
        *([Column("runs", right=True), Column("when")] if with_time else []),
    ]
    rows = [
        [
            str(rank) if rank.tied else f"{rank} ",
            *([] if ranking.before is None else [_movement(ranking.before.get(entry.user), rank)]),
            printable_name(entry.user),
            format_time(entry.score, protocol),
            format_spread(entry.score, protocol),
            printable_name(entry.file_name),
            str(entry.submission_id),
            *([str(entry.runs), format_moment(entry.created_at)] if with_time else []),
        ]
        for entry, rank in zip(ranking.entries, ranking.ranks, strict=True)
    ]
    return fitted_table(columns, rows, width)


def _movement(before: Rank | None, now: Rank) -> str:
    """The rank then, and the way that it has moved since."""
    if before is None:
        return "new"
    return f"{before.number} {'↑' if now.number < before.number else '↓' if now.number > before.number else ' '}"


def calibrated_at(rank_class: RankClass) -> str | None:
    """When the noise between runs was calibrated; None where it is assumed."""
    return None if rank_class.noise is None else rank_class.noise.calibrated_at.isoformat()


def _document(
    name: str, rankings: Sequence[Ranking], unranked: Mapping[ReasonCode, int], since: datetime | None
) -> dict[str, Any]:
    return {
        "leaderboard": name,
        "since": None if since is None else since.isoformat(),
        "rankings": [
            {
                "grid": ranking.rank_class.grid.value,
                "device": ranking.rank_class.device,
                "protocol": ranking.rank_class.protocol.value,
                "isolation": ranking.rank_class.isolation.value,
                "benchmarks": ranking.rank_class.benchmarks,
                "delta": ranking.rank_class.delta,
                "delta_calibrated_at": calibrated_at(ranking.rank_class),
                "entries": [
                    {
                        "rank": rank.number,
                        "tied": rank.tied,
                        "rank_then": _number(ranking.before, entry.user),
                        "user": entry.user,
                        "score_us": figure_us(entry.score),
                        "score_ci_us": interval_us(entry.score),
                        "file_name": entry.file_name,
                        "submission": entry.submission_id,
                        "evaluation": entry.evaluation_id,
                        "sha256": entry.source_sha256,
                        "runs": entry.runs,
                        "created_at": entry.created_at.isoformat(),
                    }
                    for entry, rank in zip(ranking.entries, ranking.ranks, strict=True)
                ],
            }
            for ranking in rankings
        ],
        "unranked": {reason.value: count for reason, count in unranked.items()},
    }


def _number(before: Mapping[str, Rank] | None, user: str) -> int | None:
    return None if before is None or user not in before else before[user].number

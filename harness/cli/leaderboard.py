"""`harness leaderboard BOARD`: the ranking, one table for each class of comparable scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, stdout_console
from harness.cli.document import figure_us, interval_us
from harness.cli.formatting import format_class, format_moment, format_spread, format_time, printable
from harness.cli.lookup import recorded_board
from harness.cli.report import plain_table, write
from harness.evaluation.record import IsolationLevel, ReasonCode
from harness.measure.ranking import (
    Entry,
    Rank,
    RankClass,
    best_per_user,
    fastest_first,
    pool_by_source,
    ranks,
)
from harness.store import open_reader

if TYPE_CHECKING:
    from rich.table import Table

_UNRANKED_WORDS = {
    ReasonCode.NOT_ISOLATED: "ran without isolation (HARNESS_RANK_UNISOLATED=1 ranks them; `harness doctor` helps)",
    ReasonCode.INTERPRETED: "ran by an interpreter",
    ReasonCode.UNSEALED_PROTOCOL: "by a protocol whose verdict a submission can forge",
    ReasonCode.CASES_LEFT_OUT: "with cases left out",
}


@dataclass(frozen=True)
class Ranking:
    """One class's table."""

    rank_class: RankClass
    entries: Sequence[Entry]
    ranks: Sequence[Rank]


@click.command()
@click.argument("board")
@click.option("--all", "show_all", is_flag=True, help="Every source of every user, not only each user's best.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Rows a table; 0 for all.")
@json_option
def leaderboard_command(board: str, show_all: bool, limit: int, as_json: bool) -> None:
    """Show a board's ranking.

    Scores are ranked only among those of the same grid, device, protocol and isolation. A user stands with the best of
    their sources; runs of one source count by their median. Ranks within the noise between runs are equal (`=`).

    \b
    harness leaderboard cholesky
    harness leaderboard cholesky --all --json
    """
    with open_reader() as reader:
        name = recorded_board(reader, board)
        entries = reader.entries(name)
        unranked = reader.unranked(name)
    rankings = _rankings(entries, show_all)
    if as_json:
        print_json(_document(name, rankings, unranked))
        return
    console = stdout_console()
    write(console, printable(name), style="bold")
    if not rankings:
        write(console, f"No ranked submission yet. `harness submit FILE --leaderboard {name}` makes the first.")
    for ranking in rankings:
        mark = ", NOT ISOLATED" if ranking.rank_class.isolation is IsolationLevel.NONE else ""
        console.print()
        write(console, format_class(ranking.rank_class) + mark)
        console.print(_table(ranking, limit or len(ranking.entries)))
        if limit and len(ranking.entries) > limit:
            write(console, f"… {len(ranking.entries) - limit} slower; --limit 0 shows them", style="dim")
        write(
            console,
            f"scores within {100 * ranking.rank_class.delta:.2g} % share a rank (assumed noise between runs)",
            style="dim",
        )
    for reason, count in unranked.items():
        write(console, f"not ranked: {count} {_UNRANKED_WORDS.get(reason, reason.value)}", style="yellow")


def _rankings(entries: Sequence[Entry], show_all: bool) -> list[Ranking]:
    classes = dict.fromkeys(entry.rank_class for entry in reversed(entries))  # the one used last comes first
    rankings = []
    for rank_class in classes:
        of_class = [entry for entry in entries if entry.rank_class == rank_class]
        shown = fastest_first(pool_by_source(of_class)) if show_all else best_per_user(of_class)
        places = ranks([entry.score.value_ns for entry in shown], rank_class.delta)
        rankings.append(Ranking(rank_class, shown, places))
    return rankings


def _table(ranking: Ranking, rows: int) -> Table:
    from rich.text import Text

    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("user", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("95 %", justify="right", no_wrap=True)
    table.add_column("file", overflow="fold")
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("when", no_wrap=True)
    for entry, rank in zip(ranking.entries[:rows], ranking.ranks[:rows], strict=True):
        table.add_row(
            str(rank) if rank.tied else f"{rank} ",
            Text(printable(entry.user)),
            format_time(entry.score),
            format_spread(entry.score),
            Text(printable(entry.file_name)),
            str(entry.submission_id),
            str(entry.runs),
            format_moment(entry.created_at),
        )
    return table


def _document(name: str, rankings: Sequence[Ranking], unranked: dict[ReasonCode, int]) -> dict[str, Any]:
    return {
        "leaderboard": name,
        "rankings": [
            {
                "grid": ranking.rank_class.grid.value,
                "device": ranking.rank_class.device,
                "protocol": ranking.rank_class.protocol.value,
                "isolation": ranking.rank_class.isolation.value,
                "delta": ranking.rank_class.delta,
                "entries": [
                    {
                        "rank": rank.number,
                        "tied": rank.tied,
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

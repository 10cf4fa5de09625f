"""`harness history [BOARD]`: a user's submissions, newest first, and how each score stands to the ones before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from harness.cli.common import WholeNumber, json_option, print_json, stdout_console, user_option
from harness.cli.formatting import format_class, printable, printable_name
from harness.cli.history_screen import Line, history_document, legend, write_section
from harness.cli.leaderboard import Moment
from harness.cli.lookup import recorded_board
from harness.cli.writing import write
from harness.evaluation.record import Protocol
from harness.history.progress import Step, rank_now, steps
from harness.measure.ranking import RankClass
from harness.store import Reader, open_reader
from harness.store.location import location

if TYPE_CHECKING:
    from harness.history.technique_rows import TechniqueRow
    from harness.history.techniques_of import SourceTechniques

ROWS = 20
"""Of a table, where nobody asks for more."""
TECHNIQUES_BUDGET_S = 0.04
"""How long the screen may take to read sources whose techniques are not kept; `--techniques` and `--json` read all."""
PROTOCOLS = {"sealed": Protocol.SEALED, "popcorn": Protocol.POPCORN, "hosted": Protocol.HOSTED}


@click.command()
@click.argument("board", required=False)
@user_option
@click.option("--device", metavar="NAME", help="Only devices whose name holds this, e.g. H200.")
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), help="Only this protocol.")
@click.option("--since", type=Moment(), metavar="DATE", help="Only submissions from then on, local time.")
@click.option("--tag", metavar="TAG", help="Only submissions with this tag (see `harness note`).")
@click.option("--best", "best_only", is_flag=True, help="Only scores that were the best when they were made.")
@click.option("--techniques", "all_techniques", is_flag=True, help="Read every source, however long it takes.")
@click.option(
    "--limit",
    type=WholeNumber(0),
    metavar="N",
    help=f"Rows a table, {ROWS} unless given; with --json the newest N, all unless given. 0 for all.",
)
@json_option
def history_command(
    board: str | None,
    user: str,
    device: str | None,
    protocol: str | None,
    since: datetime | None,
    tag: str | None,
    best_only: bool,
    all_techniques: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show your submissions, newest first; for several boards what you did on each, and the latest of all.

    `change` is the score against your submission before it, `of best` against the best before it; both only among
    scores of the same board, grid, device and protocol, and each run by itself, where the leaderboard takes the median
    of a file's runs. Only a run that ranks is a best one, except where its whole class does not (by the protocol, or
    without a sandbox). `~` marks a change within the noise. `rank` is the place that a score held among the other
    users' best ones when it was made, and the one it would hold now. `when` is local time. Below the table: what the
    code does that the submission before it did not.

    \b
    harness history
    harness history cholesky --device H200 --best
    harness history cholesky --user ada --since 2026-11-01 --limit 0
    """
    with open_reader() as reader:
        if board is not None:
            board = recorded_board(reader, board)
        progress = steps(reader.history(user, board))
        chosen = [step for step in progress if _is_wanted(step, device, protocol, since, best_only)]
        if tag is not None:
            tags, _ = reader.remarks(step.row.id for step in chosen)
            chosen = [step for step in chosen if tag in tags.get(step.row.id, ())]
        if board is None and not (as_json or all_techniques) and len({step.row.leaderboard for step in chosen}) > 1:
            _write_overview(reader, user, chosen, ROWS if limit is None else limit)
            return
        if as_json:
            sections = shown = _sections(chosen[-(limit or 0) :])
        else:
            sections = _sections(chosen)
            shown = {key: section[-(ROWS if limit is None else limit) :] for key, section in sections.items()}
        lines, unread = _lines(reader, shown, None if as_json or all_techniques else TECHNIQUES_BUDGET_S)
    if as_json:
        place = {id(step): number for number, step in enumerate(progress)}
        every = [line for section in lines.values() for line in section]
        newest_first = sorted(every, key=lambda line: place[id(line.step)], reverse=True)
        print_json({"user": user, "submissions": [history_document(line) for line in newest_first]})
        return
    console = stdout_console()
    if not chosen:
        where = f" on {board}" if board else ""
        if progress:
            filters = _filter_words(device, protocol, since, tag, best_only)
            count = len({step.row.id for step in progress})
            what = (
                f"None of {printable(user)}'s {count} submissions" if count > 1 else f"{printable(user)}'s submission"
            )
            verb = "matches" if count > 1 else "does not match"
            write(console, f"{what}{where} {verb} {filters}.")
        else:
            store = printable_name(location().shown)
            # Never wrapped: a path is there to be copied.
            console.print(
                f"{printable(user)} has no submissions{where} yet in {store}. `harness submit FILE` makes the first.",
                markup=False,
                soft_wrap=True,
            )
    for number, ((leaderboard, rank_class), section) in enumerate(sections.items()):
        if number:
            console.print()
        write(console, f"{printable_name(leaderboard)} · {printable_name(user)}", style="bold")
        write(console, format_class(rank_class) if rank_class else "not evaluated")
        write_section(console, lines[(leaderboard, rank_class)], section)
    if meaning := legend([line for section in lines.values() for line in section]):
        write(console, f"\n{meaning}", style="dim")
    if unread:
        sources = "one source" if unread == 1 else f"{unread} sources"
        write(console, f"\nThe techniques of {sources} were not read; --techniques reads all.", style="dim")


def _write_overview(reader: Reader, user: str, chosen: Sequence[Step], limit: int) -> None:
    from harness.cli.history_overview import board_lines, places_of, write_overview

    boards = board_lines(chosen)
    latest = chosen[-limit:]
    tags, notes = reader.remarks(step.row.id for step in latest)
    lines = [
        Line(step, None, None, tuple(tags.get(step.row.id, ())), tuple(notes.get(step.row.id, ()))) for step in latest
    ]
    places = places_of(reader, user, boards[: limit or None])
    submissions = len({step.row.id for step in chosen})
    write_overview(stdout_console(), user, boards, lines, limit, places, submissions)


def _filter_words(
    device: str | None, protocol: str | None, since: datetime | None, tag: str | None, best_only: bool
) -> str:
    """The filters as they were typed."""
    given = {"--device": device, "--protocol": protocol, "--tag": tag}
    words = [f"{option} {printable(value)}" for option, value in given.items() if value is not None]
    words += [f"--since {since:%Y-%m-%d %H:%M}"] if since is not None else []
    return " ".join([*words, *(["--best"] if best_only else [])])


Key = tuple[str, RankClass | None]


def _is_wanted(step: Step, device: str | None, protocol: str | None, since: datetime | None, best_only: bool) -> bool:
    row = step.row
    if device is not None and (row.rank_class is None or device.casefold() not in row.rank_class.device.casefold()):
        return False
    if protocol is not None and (row.rank_class is None or row.rank_class.protocol is not PROTOCOLS[protocol]):
        return False
    if since is not None and row.created_at < since:
        return False
    return step.is_best or not best_only


def _sections(progress: Sequence[Step]) -> dict[Key, list[Step]]:
    """The rows by board and class, each oldest first; the section with the newest row first.

    A submission whose evaluation never began has no class: it stands among those of its board's newest one.
    """
    newest: dict[str, RankClass | None] = {}
    for step in progress:
        newest[step.row.leaderboard] = step.row.rank_class or newest.get(step.row.leaderboard)
    sections: dict[Key, list[Step]] = {}
    for step in reversed(progress):
        board = step.row.leaderboard
        of = step.row.rank_class or newest[board]
        sections.setdefault((board, of and of.of_any_benchmarks), []).append(step)
    return {key: section[::-1] for key, section in sections.items()}


def _lines(
    reader: Reader, sections: dict[Key, list[Step]], budget_s: float | None
) -> tuple[dict[Key, list[Line]], int]:
    """What is shown of each section, and how many sources the budget left unread."""
    from harness.history.techniques_of import SourceTechniques

    known = SourceTechniques(reader, budget_s)
    tags, notes = reader.remarks(step.row.id for section in sections.values() for step in section)
    lines: dict[Key, list[Line]] = {}
    for key, section in sections.items():
        ranked = {step.row.rank_class for step in section if step.row.rank_then is not None}
        best = {of: reader.best_scores(of) for of in ranked if of is not None}
        lines[key] = [
            Line(
                step,
                rank_now(step.row, best.get(step.row.rank_class, {}) if step.row.rank_class else {}),
                _changes(known, step),
                tuple(tags.get(step.row.id, ())),
                tuple(notes.get(step.row.id, ())),
            )
            for step in reversed(section)
        ]
    return {key: section[::-1] for key, section in lines.items()}, known.skipped


def _changes(known: SourceTechniques, step: Step) -> tuple[TechniqueRow, ...] | None:
    """What the code does otherwise than that of the submission before; None for a first one and where the budget
    ended."""
    before, row = step.predecessor, step.row
    if before is None:
        return None
    if before.sha256 == row.sha256:
        return ()
    from harness.history.technique_rows import technique_rows
    from harness.techniques import technique_changes

    new = known.of(row.sha256, row.file_name)
    old = None if new is None else known.of(before.sha256, before.file_name)
    return None if old is None or new is None else tuple(technique_rows(technique_changes(old, new)))

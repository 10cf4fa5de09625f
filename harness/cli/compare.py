"""`harness compare A B`: a paired measurement of two files or submissions, now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from harness.boards.board import GridName
from harness.cli.common import Number, WholeNumber, json_option, print_json, stdout_console
from harness.cli.compare_document import compare_document
from harness.cli.comparing import measure, render_comparison
from harness.cli.lookup import recorded_board
from harness.cli.operands import both_operands, common_board
from harness.errors import ExitStatus
from harness.evaluation.record import IsolationLevel
from harness.measure.processes import PROCESSES
from harness.store import open_reader

if TYPE_CHECKING:
    from harness.comparing.record import PairedComparison


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--leaderboard", metavar="BOARD", help="Board name or folder; else the files' #!POPCORN line.")
@click.option(
    "--case", "cases", type=WholeNumber(0), multiple=True, metavar="N", help="Only this benchmark; may be repeated."
)
@click.option("--grid", type=click.Choice([g.value for g in GridName]), help="Default: full with a GPU, else cpu.")
@click.option(
    "--budget",
    "budget_s",
    type=Number(0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds of timed calls a case; eight units of each run, one a process, are taken whatever they cost.",
)
@click.option(
    "--processes",
    type=click.Choice([str(number) for number in PROCESSES]),
    help="Of each version. Default: 8 with a GPU, else 1. More tell smaller differences of short calls.",
)
@click.option(
    "--isolation",
    type=click.Choice([level.value for level in IsolationLevel if level is not IsolationLevel.UNKNOWN]),
    help="As for submit.",
)
@click.option("--seed", type=WholeNumber(), help="Root of every seed; the same root gives the same inputs again.")
@json_option
def compare_command(
    a: str,
    b: str,
    leaderboard: str | None,
    cases: tuple[int, ...],
    grid: str | None,
    budget_s: float,
    processes: str | None,
    isolation: str | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Measure B against A: is it faster, slower or the same?

    Both run in one session, in turns (A B B A), on the same inputs, each in several processes on a GPU, since processes
    differ. First A runs against itself, which shows what this machine alone makes of equal code: B must differ by more
    than that. An operand that is all digits is a submission's id, anything else a file, or a tag of yours where there
    is no such file. Nothing is recorded.

    \b
    harness compare 11 12
    harness compare 12 kernel.py
    harness compare old.py new.py --case 3 --budget 30

    Exit status: 0 compared; 1 a submission failed; 2 the request was wrong; 3 this machine can't do it, or is too
    restless for a verdict.
    """
    with open_reader() as reader:
        named = None if leaderboard is None else recorded_board(reader, leaderboard)
        sides = both_operands(reader, a, b, board=named, with_figures=False)
        board = common_board(reader, sides, leaderboard)
    result = measure(
        leaderboard if leaderboard is not None and os.path.isdir(leaderboard) else board,
        sides[0],
        sides[1],
        only=tuple(dict.fromkeys(cases)),
        grid=GridName(grid) if grid else None,
        budget_s=budget_s,
        processes=int(processes) if processes else None,
        isolation=IsolationLevel(isolation) if isolation else None,
        seed=seed,
    )
    if as_json:
        print_json(compare_document(result, sides[0], sides[1]))
    else:
        render_comparison(stdout_console(), result, sides[0], sides[1])
    return exit_status(result)


def exit_status(result: PairedComparison) -> ExitStatus:
    if result.failed:
        return ExitStatus.FAILED
    return ExitStatus.MACHINE_CANNOT if result.refused else ExitStatus.PASSED

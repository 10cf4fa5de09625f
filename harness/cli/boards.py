"""`harness boards [FOLDER]`: what can be solved; with a folder, all that one problem folder says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from harness.boards.board import Board, Grid, GridName, Spec, Work, format_spec
from harness.boards.find import BrokenBoard, find_board, scan
from harness.cli.common import json_option, print_json, stderr_console, stdout_console, user_option
from harness.cli.document import plain_value
from harness.cli.formatting import format_ns, printable
from harness.cli.report import plain_table, write
from harness.store.reading import best_score_ns, best_scores_ns

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@click.command()
@click.argument("folder", required=False)
@user_option
@json_option
def boards_command(folder: str | None, user: str, as_json: bool) -> None:
    """List the leaderboards, or load and show one: FOLDER is a problem folder's path, or a board's name.

    Boards are found in ./leaderboards, in the folders of HARNESS_LEADERBOARDS, and among those that come with the
    package. A board is code that its owner trusts: it runs on this machine, outside the sandbox. Add no folder that you
    would not run yourself.

    \b
    harness boards
    harness boards cholesky
    harness boards ../reference-kernels/problems/pmpp_v2/vectoradd_py --json
    """
    if folder is not None:
        board = find_board(folder)
        best_ns = best_score_ns(board.name, user)
        if as_json:
            print_json({**_board_part(board, best_ns), **_details_part(board)})
        else:
            _show(stdout_console(), board, best_ns)
        return
    found = scan()
    best = best_scores_ns([board.name for board in found.boards], user)
    if as_json:
        boards = [_board_part(board, best[board.name]) for board in found.boards]
        print_json({"boards": boards, "broken": [_broken_part(entry) for entry in found.broken]})
        return
    console = stdout_console()
    if found.boards:
        console.print(_table(found.boards, best))
        write(console, "tests + benchmarks of each grid; a machine without a GPU runs the CPU grid", style="dim")
    else:
        write(console, "No boards. Put problem folders into ./leaderboards, or name theirs in HARNESS_LEADERBOARDS.")
    for entry in found.broken:
        write(stderr_console(), f"does not load: {printable(str(entry.error))}", style="yellow")


def _table(boards: Sequence[Board], best_ns: Mapping[str, float | None]) -> Table:
    from rich.text import Text

    table = plain_table()
    dated = any(board.deadline for board in boards)
    longest = max(len(board.name) for board in boards)
    table.add_column("board", overflow="fold", min_width=min(longest, 32))
    table.add_column("full", justify="right", no_wrap=True)
    table.add_column("cpu", justify="right", no_wrap=True)
    table.add_column("gpus", overflow="fold")
    if dated:
        table.add_column("open until (UTC)", overflow="fold", min_width=10)
    table.add_column("your best", justify="right", no_wrap=True)
    for board in boards:
        score_ns = best_ns[board.name]
        cpu = board.settings.cpu_grid
        table.add_row(
            Text(board.name),
            _size(board.full_grid),
            _size(cpu) if cpu else "–",
            Text(printable(", ".join(board.gpus)) or "any"),
            *([format_deadline(board.deadline)] if dated else []),
            format_ns(score_ns) if score_ns else "–",
        )
    return table


def _size(grid: Grid) -> str:
    return f"{len(grid.tests)} + {len(grid.benchmarks)}"


def format_deadline(deadline: datetime | None, now: datetime | None = None) -> str:
    """`2026-02-14`, to the end of that day, or `2026-02-14 06:59`; a past one is `closed`."""
    if deadline is None:
        return "–"
    whole_day = (deadline.hour, deadline.minute, deadline.second) == (23, 59, 59)
    text = deadline.strftime("%Y-%m-%d" if whole_day else "%Y-%m-%d %H:%M")
    return f"closed {text}" if (now or datetime.now(UTC)) > deadline else text


def _show(console: Console, board: Board, best_ns: float | None) -> None:
    write(console, printable(board.name), style="bold")
    ranked = f"ranked {board.ranked_timeout_s} s"
    facts = [
        ("folder", str(board.folder)),
        ("aliases", ", ".join(board.settings.aliases)),
        ("language", board.language.value + (", several GPUs" if board.multi_gpu else "")),
        ("gpus", ", ".join(board.gpus) or "any"),
        ("ranked by", board.ranking_by.value),
        ("time limits", f"test {board.test_timeout_s} s, benchmark {board.benchmark_timeout_s} s, {ranked}"),
        ("open until", format_deadline(board.deadline) if board.deadline else ""),
        ("files", ", ".join(file.name if file.source else f"{file.name} (yours)" for file in board.files)),
        ("templates", ", ".join(board.templates)),
        ("speed of light", _work_text(board.settings.speed_of_light)),
        ("your best", format_ns(best_ns) if best_ns else ""),
    ]
    for name, value in facts:
        if value:
            write(console, f"{name:<15} {printable(value)}")
    console.print()
    write(console, printable(board.description.rstrip()) or "The board has no description.")
    for grid in [board.full_grid] + ([board.settings.cpu_grid] if board.settings.cpu_grid else []):
        for kind, cases in (("tests", grid.tests), ("benchmarks", grid.benchmarks)):
            console.print()
            write(console, f"{kind}, {grid.name.value} grid", style="bold")
            for i, spec in enumerate(cases):
                write(console, f"{i:>3}  {printable(format_spec(spec))}")
    console.print()
    write(console, f"`harness init {board.name}` writes a file to start from.", style="dim")


def _work_text(work: Work | None) -> str:
    if work is None:
        return ""
    if work.function:
        return f"by reference.py's {work.function}"
    return f"{work.flops} flops ({work.precision.value}), {work.bytes_moved} bytes"


def _board_part(board: Board, best_ns: float | None) -> dict[str, Any]:
    grids = {GridName.FULL.value: board.full_grid, GridName.CPU.value: board.settings.cpu_grid}
    return {
        "name": board.name,
        "folder": str(board.folder),
        "aliases": list(board.settings.aliases),
        "language": board.language.value,
        "multi_gpu": board.multi_gpu,
        "ranking_by": board.ranking_by.value,
        "gpus": list(board.gpus),
        "deadline": board.deadline.isoformat() if board.deadline else None,
        "grids": {
            name: {"tests": len(grid.tests), "benchmarks": len(grid.benchmarks)} if grid else None
            for name, grid in grids.items()
        },
        "best_us": best_ns / 1e3 if best_ns is not None else None,
    }


def _details_part(board: Board) -> dict[str, Any]:
    def cases(specs: Sequence[Spec]) -> list[dict[str, Any]]:
        return [{key: plain_value(value) for key, value in spec.items()} for spec in specs]

    grids = [board.full_grid] + ([board.settings.cpu_grid] if board.settings.cpu_grid else [])
    return {
        "description": board.description,
        "files": [{"name": file.name, "source": str(file.source) if file.source else None} for file in board.files],
        "templates": {name: str(path) for name, path in board.templates.items()},
        "timeouts_s": {
            "test": board.test_timeout_s,
            "benchmark": board.benchmark_timeout_s,
            "ranked": board.ranked_timeout_s,
        },
        "libraries": list(board.libraries),
        "cases": {
            grid.name.value: {"tests": cases(grid.tests), "benchmarks": cases(grid.benchmarks)} for grid in grids
        },
    }


def _broken_part(entry: BrokenBoard) -> dict[str, str]:
    return {"name": entry.name, "path": str(entry.path), "error": str(entry.error)}

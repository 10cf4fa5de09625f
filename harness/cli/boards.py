"""`harness boards [FOLDER]`: what can be solved; with a folder, all that one problem folder says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from harness.boards.board import Board, Grid, GridName, Spec, Work, format_spec
from harness.boards.find import BrokenBoard, find_board, scan
from harness.cli.common import json_option, print_json, stderr_console, stdout_console, user_option
from harness.cli.document import plain_value
from harness.cli.formatting import format_ns, printable
from harness.cli.lookup import name_to_type
from harness.cli.writing import plain_table, print_table, write
from harness.errors import MachineError
from harness.store.reading import best_scores_ns

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
        best = _best_of([board.name], user)
        if as_json:
            print_json({**_board_part(board, best), **_details_part(board)})
        else:
            _show(stdout_console(), board, best, name_to_type(board, folder))
        return
    found = scan()
    best = _best_of([board.name for board in found.boards], user)
    if as_json:
        boards = [_board_part(board, best) for board in found.boards]
        print_json({"boards": boards, "broken": [_broken_part(entry) for entry in found.broken]})
        return
    console = stdout_console()
    if found.boards:
        print_table(console, _table(found.boards, best))
        write(console, "tests + benchmarks of each grid; a machine without a GPU runs the CPU grid", style="dim")
        if best is not None and any(best.values()):
            write(console, f"your best: {_BEST_WORDS}", style="dim")
    else:
        write(console, "No boards. Put problem folders into ./leaderboards, or name theirs in HARNESS_LEADERBOARDS.")
    for entry in found.broken:
        write(stderr_console(), f"does not load: {printable(str(entry.error))}", style="yellow")


Best = Mapping[str, float | None] | None
"""A user's scores in nanoseconds by board; None when the store can't be read."""
_BEST_WORDS = "as the leaderboard has it: the fastest file, by the median of its runs"


def _best_of(boards: Sequence[str], user: str) -> Best:
    """The boards are there whether or not the store is."""
    try:
        return best_scores_ns(boards, user)
    except MachineError as error:
        write(stderr_console(), f"warning: the store is not readable: {printable(str(error))}", style="yellow")
        return None


def _best_text(board: Board, best: Best) -> str:
    if best is None:
        return "store not readable"
    score_ns = best[board.name]
    return format_ns(score_ns) if score_ns else "–"


def _table(boards: Sequence[Board], best: Best) -> Table:
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
        cpu = board.settings.cpu_grid
        table.add_row(
            Text(board.name),
            _size(board.full_grid),
            _size(cpu) if cpu else "–",
            Text(printable(", ".join(board.gpus)) or "any"),
            *([format_deadline(board.deadline)] if dated else []),
            _best_text(board, best),
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


def _show(console: Console, board: Board, best: Best, name: str) -> None:
    best_text = _best_text(board, best)
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
        ("your best", "" if best_text == "–" else best_text if best is None else f"{best_text} ({_BEST_WORDS})"),
    ]
    for label, value in facts:
        if value:
            _write_fact(console, label, printable(value))
    console.print()
    for paragraph in paragraphs(printable(board.description)):
        write(console, paragraph)
    if not board.description.strip():
        write(console, "The board has no description.")
    for grid in [board.full_grid] + ([board.settings.cpu_grid] if board.settings.cpu_grid else []):
        for kind, cases in (("tests", grid.tests), ("benchmarks", grid.benchmarks)):
            console.print()
            write(console, f"{kind}, {grid.name.value} grid", style="bold")
            for i, spec in enumerate(cases):
                write(console, f"{i:>3}  {printable(format_spec(spec))}")
    console.print()
    if any("seed" in spec for spec in board.full_grid.benchmarks):
        write(console, "Ranked runs draw the seeds of their benchmarks afresh, in secret.", style="dim")
    # Not wrapped: it is there to be copied, and a path can be long.
    console.print(f"`harness init {name}` writes a file to start from.", style="dim", markup=False, soft_wrap=True)


def paragraphs(text: str) -> list[str]:
    """A description as lines to be wrapped to any width: each paragraph joined to one, blank lines between them kept.

    Lines that begin with blanks, a list's mark, a table's bar or a heading's sign, and what stands between fences, are
    lines of their own.
    """
    lines: list[str] = []
    joins = fenced = False
    for line in text.strip("\n").rstrip().splitlines():
        line = line.rstrip()
        fence = line.lstrip().startswith("```")
        alone = fenced or fence or not line or line[0] in " \t|#>" or _LIST_MARK.match(line) is not None
        if joins and not alone:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        # What follows a list's entry without a mark of its own goes on with it.
        joins = not alone or (not fenced and bool(line) and _LIST_MARK.match(line) is not None)
        fenced ^= fence
    return lines


_LIST_MARK = re.compile(r"(?:[-*+]|\d+[.)]) ")


def _write_fact(console: Console, label: str, value: str) -> None:
    """The value behind its label, wrapped under its own beginning and never within a word."""
    import textwrap

    width = max(20, console.width - 16)
    first, *rest = textwrap.wrap(value, width, break_long_words=False, break_on_hyphens=False) or [""]
    for head, part in [(label, first), *(("", part) for part in rest)]:
        console.print(f"{head:<15} {part}", markup=False, highlight=False, soft_wrap=True)


def _work_text(work: Work | None) -> str:
    if work is None:
        return ""
    if work.function:
        return f"by reference.py's {work.function}"
    return f"flops = {work.flops} ({work.precision.value}); bytes = {work.bytes_moved}"


def _board_part(board: Board, best: Best) -> dict[str, Any]:
    best_ns = None if best is None else best[board.name]
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

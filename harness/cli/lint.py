"""`harness lint [BOARD…]`: prove boards sound, and say what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from harness.boards.find import BrokenBoard, find_board, scan
from harness.boards.lint import Code, Finding, LintReport, Severity, lint_board
from harness.cli.common import json_option, print_json, stderr_console, stdout_console
from harness.cli.device import device_held
from harness.cli.formatting import printable
from harness.cli.report import shape
from harness.cli.writing import plain_table, print_table, write
from harness.errors import ExitStatus
from harness.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


@click.command()
@click.argument("boards", nargs=-1, metavar="[BOARD]...")
@click.option("--full", is_flag=True, help="Over the full grid; by default the CPU grid, where a board has one.")
@json_option
def lint_command(boards: tuple[str, ...], full: bool, as_json: bool) -> int:
    """Prove that boards are sound: the right answer passes, wrong ones fail, the format is the public one.

    Without BOARD, every board that is found. Exit status 0: sound; 1: not sound; 2: a board does not load; 3: a
    board's code can't run on this machine. docs/boards.md says what each finding means.

    \b
    harness lint
    harness lint cholesky --full
    harness lint ./leaderboards/mine --json
    """
    broken: Sequence[BrokenBoard] = ()
    if boards:
        chosen = [find_board(name) for name in boards]
    else:
        found = scan()
        chosen, broken = list(found.boards), found.broken
    with device_held(), _progress() as tell:
        reports = [lint_board(board, full=full, tell=tell) for board in chosen]
    if as_json:
        print_json(
            {"boards": [_report_part(report) for report in reports], "broken": [_broken_part(b) for b in broken]}
        )
    else:
        console = stdout_console()
        for report in reports:
            _write(console, report)
        for entry in broken:
            write(console, f"{printable(entry.name)}: does not load", style="red")
            write(console, printable(str(entry.error)), indent=2)
        if not reports and not broken:
            write(console, "There is no board to lint.")
    return _status(reports, broken)


def _status(reports: Sequence[LintReport], broken: Sequence[BrokenBoard]) -> ExitStatus:
    """The gravest of: a board that is unsound, one that does not load, one that cannot run here."""
    errors = {finding.code for report in reports for finding in report.findings if finding.severity is Severity.ERROR}
    if errors - {Code.MACHINE}:
        return ExitStatus.FAILED
    if broken:
        return ExitStatus.BAD_REQUEST
    return ExitStatus.MACHINE_CANNOT if errors else ExitStatus.PASSED


def _write(console: Console, report: LintReport) -> None:
    refused = sum(case.refused for case in report.cases)
    verdict = "sound" if report.sound else "not sound"
    write(
        console,
        f"{printable(report.board)}: {verdict} ({report.grid.value} grid, {counted(len(report.cases), 'case')}, "
        f"{counted(refused, 'wrong answer')} refused)",
        style="bold" if report.sound else "bold red",
    )
    if report.cases:
        from rich.text import Text

        table = plain_table()
        table.add_column("case")
        table.add_column("lowest precision", no_wrap=True)
        table.add_column("refused", justify="right", no_wrap=True)
        for case in report.cases:
            table.add_row(Text(printable(case.case)), case.lowest_precision or "exact", str(case.refused))
        print_table(console, table)
    for finding, cases in folded(report.findings):
        place = f", {printable(finding.case)}" if finding.case else ""
        if len(cases) > 1:
            place += f" and {counted(len(cases) - 1, 'more case')}"
        write(console, f"{finding.severity.value} {finding.code.value}{place}", style=STYLES[finding.severity])
        write(console, printable(finding.message), indent=2)
        if finding.hint:
            write(console, printable(finding.hint), indent=2, style="dim")
    console.print()


def folded(findings: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """Errors first, then warnings, then notes; those that differ in case and in numbers alone are one, with the cases
    that it was found in."""
    groups: dict[tuple[Severity, Code, str, str], tuple[Finding, list[str]]] = {}
    for finding in sorted(findings, key=lambda each: list(STYLES).index(each.severity)):
        key = (finding.severity, finding.code, shape(finding.message), finding.hint)
        groups.setdefault(key, (finding, []))[1].append(finding.case)
    return [(finding, list(dict.fromkeys(cases))) for finding, cases in groups.values()]


def _report_part(report: LintReport) -> dict[str, Any]:
    return {
        "board": report.board,
        "grid": report.grid.value,
        "sound": report.sound,
        "cases": [
            {"case": case.case, "lowest_precision": case.lowest_precision or None, "refused": case.refused}
            for case in report.cases
        ],
        "findings": [_finding_part(finding) for finding in report.findings],
    }


def _finding_part(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "severity": finding.severity.value,
        "case": finding.case or None,
        "message": finding.message,
        "hint": finding.hint or None,
    }


def _broken_part(entry: BrokenBoard) -> dict[str, str]:
    return {"name": entry.name, "path": str(entry.path), "error": str(entry.error)}


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; elsewhere one line a board."""
    console = stderr_console()
    if not console.is_terminal:

        def line(text: str, done: int, total: int) -> None:
            if done == 0:
                console.print(f"lint: {text.split(' ')[0]}, {counted(total, 'case')}", markup=False)

        yield line
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("lint")

        def bar(text: str, done: int, total: int) -> None:
            progress.update(task, description=printable(text), completed=done, total=total)

        yield bar

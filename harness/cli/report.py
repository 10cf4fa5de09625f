"""The result screen of an evaluation, for `submit`, `run` and `show` alike; the JSON document comes along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.document import evaluation_document
from harness.cli.formatting import (
    ending,
    format_case,
    format_class,
    format_indices,
    format_share,
    format_spread,
    format_time,
    printable,
)
from harness.evaluation.record import CaseKind, CaseResult, Mode, Protocol, Reason, Status
from harness.evaluation.state import describe
from harness.measure.statistics import case_figure
from harness.store.rows import EvaluationRow, SubmissionRow

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TRACEBACK_LINES = 12
"""How much of a traceback's end a screen shows; `--json` has all of it."""
FAILURES_SHOWN = 5
STATUS_STYLE = {
    Status.PASSED: "bold green",
    Status.RUNNING: "bold",
    Status.INTERRUPTED: "bold yellow",
}


def render_evaluation(
    console: Console, submission: SubmissionRow | None, evaluation: EvaluationRow, *, with_notes: bool = False
) -> None:
    """Write the result screen: verdict, score and rank, cases, failures, where the time went, where the logs are."""
    leaderboard = submission.leaderboard if submission else ""
    if submission is not None:
        write(console, _submission_line(submission), style="bold")
    header = evaluation.header
    interpreted = " · interpreted" if header.interpreted else ""
    write(console, f"{header.mode.value} mode · {format_class(evaluation.rank_class(leaderboard))}{interpreted}")
    console.print()
    _write_verdict(console, evaluation)
    _write_cases(console, evaluation)
    _write_failures(console, evaluation)
    console.print()
    if with_notes:
        _write_notes(console, evaluation.cases)
        if state := describe(evaluation.outcome.state):
            write(console, f"device: {printable(state)}", style="dim")
    if evaluation.outcome.phases_s:
        parts = ", ".join(f"{printable(name)} {seconds:.1f} s" for name, seconds in evaluation.outcome.phases_s.items())
        write(console, f"time: {parts}", style="dim")
    if header.log:
        # Never wrapped: a path is there to be copied.
        console.print(f"logs: {printable(header.log)}", style="dim", markup=False, soft_wrap=True)


def write(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """A paragraph of plain text, wrapped and indented; square brackets in it mean nothing."""
    if not indent:
        console.print(text, style=style or None, markup=False, highlight=False)
        return
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))


def _submission_line(submission: SubmissionRow) -> str:
    parts = [
        f"submission {submission.id}",
        submission.leaderboard,
        printable(submission.file_name),
        printable(submission.user),
    ]
    if submission.previous is not None:
        parts.append(f"after {submission.previous}")
    return " · ".join(parts)


def _write_verdict(console: Console, evaluation: EvaluationRow) -> None:
    header, outcome = evaluation.header, evaluation.outcome
    line = outcome.status.value.upper()
    if evaluation.score is not None:
        line += f"   score {format_time(evaluation.score)} {format_spread(evaluation.score)}".rstrip()
    if evaluation.rank is not None:
        line += f"   rank {evaluation.rank}"
    write(console, line, style=STATUS_STYLE.get(outcome.status, "bold red"))
    if outcome.reason is not None and not _told_by_a_case(outcome.reason, evaluation.cases):
        write(console, _reason_text(outcome.reason))
    if outcome.status is Status.PASSED and evaluation.rank is None:
        if outcome.rank_reason is not None:
            write(console, f"not ranked: {_reason_text(outcome.rank_reason)}", style="yellow")
        elif header.mode is not Mode.LEADERBOARD:
            write(console, f"not ranked: {header.mode.value} mode only looks", style="yellow")
    if evaluation.score is not None and header.protocol is not Protocol.HOSTED:
        count = sum(case.kind is CaseKind.BENCHMARK for case in evaluation.cases)
        write(console, f"score: {_SCORE_WORDS[header.ranking_by.value].format(count=count)}", style="dim")


_SCORE_WORDS = {
    "geom": "geometric mean of {count} benchmark medians; ± is half the 95 % interval",
    "mean": "mean of {count} benchmark medians; ± is half the 95 % interval",
    "last": "the median of the benchmark; ± is half the 95 % interval",
}


def _told_by_a_case(reason: Reason, cases: Iterable[CaseResult]) -> bool:
    return any(case.reason == reason for case in cases)


def _reason_text(reason: Reason) -> str:
    return f"{printable(reason.message)} ({reason.code.value})" if reason.message else reason.code.value


def _write_cases(console: Console, evaluation: EvaluationRow) -> None:
    cases = evaluation.cases
    tests = [case for case in cases if case.kind is CaseKind.TEST]
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    if tests:
        passed = sum(case.status is Status.PASSED for case in tests)
        write(console, f"tests: {passed} of {len(tests)} passed")
    if tests and evaluation.header.mode is Mode.TEST:
        console.print(_test_table(tests))
    if benchmarks:
        console.print(_benchmark_table(benchmarks))
    missing = evaluation.header.cases_planned - len(cases)
    if missing > 0:
        verb = "not run yet" if evaluation.outcome.status is Status.RUNNING else "not run"
        write(console, f"{missing} of {evaluation.header.cases_planned} cases {verb}", style="yellow")


def plain_table() -> Table:
    """A table without frames, with a rule under its header, that uses only the width it needs."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="")


def _test_table(cases: Sequence[CaseResult]) -> Table:
    from rich.text import Text

    table = plain_table()
    table.add_column("#", justify="right")
    table.add_column("test")
    table.add_column("result", no_wrap=True)
    for case in cases:
        table.add_row(str(case.index), Text(format_case(case.spec)), Text(case.status.value))
    return table


def _benchmark_table(cases: Sequence[CaseResult]) -> Table:
    from rich.text import Text

    with_light = any(case.speed_of_light_ns is not None for case in cases)
    table = plain_table()
    table.add_column("#", justify="right")
    table.add_column("benchmark")
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("95 %", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    if with_light:
        table.add_column("of light", justify="right", no_wrap=True)
    for case in cases:
        figure = case_figure(case.samples)
        passed = case.status is Status.PASSED
        cells: list[str | Text] = [
            str(case.index),
            Text(format_case(case.spec)),
            Text(format_time(figure) if passed else case.status.value, style="" if passed else "red"),
            format_spread(figure) if passed else "",
            str(len(case.samples.wall_ns)) if case.samples else "",
        ]
        if with_light:
            cells.append(format_share(case.speed_of_light_ns, figure) if passed else "")
        table.add_row(*cells)
    return table


def _write_failures(console: Console, evaluation: EvaluationRow) -> None:
    """Each distinct failure once, with the cases it struck, its message and its traceback's end."""
    groups: dict[tuple[CaseKind, Status, Reason | None, str], list[CaseResult]] = {}
    for case in evaluation.cases:
        if case.status is not Status.PASSED:
            groups.setdefault((case.kind, case.status, case.reason, case.traceback), []).append(case)
    for (kind, status, reason, traceback), cases in list(groups.items())[:FAILURES_SHOWN]:
        console.print()
        which = f"{kind.value} {format_indices(case.index for case in cases)}"
        spec = f" ({format_case(cases[0].spec)})" if len(cases) == 1 else ""
        write(console, f"{which}{spec}: {status.value}", style="red")
        if reason is not None:
            write(console, _reason_text(reason), indent=2)
        if traceback.strip():
            write(console, ending(traceback, TRACEBACK_LINES), style="dim", indent=2)
    if len(groups) > FAILURES_SHOWN:
        write(console, f"\n… {len(groups) - FAILURES_SHOWN} further kinds of failure; --json has them all")


def _write_notes(console: Console, cases: Iterable[CaseResult]) -> None:
    groups: dict[tuple[CaseKind, str], list[int]] = {}
    for case in cases:
        for note in case.notes:
            groups.setdefault((case.kind, note), []).append(case.index)
    for (kind, note), indices in groups.items():
        write(console, f"{kind.value} {format_indices(indices)}: {printable(note)}", style="dim")


__all__ = ["evaluation_document", "plain_table", "render_evaluation", "write"]

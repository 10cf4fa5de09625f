"""The result screen of an evaluation, for `submit`, `run` and `show` alike; the JSON document comes along."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.benchmark_table import benchmark_table, processes_told
from harness.cli.document import evaluation_document
from harness.cli.formatting import (
    format_case,
    format_class,
    format_indices,
    format_spread,
    format_time,
    printable,
    printable_name,
    without_interval,
)
from harness.cli.writing import ends_with, plain_table, print_table, with_place, write, write_as_it_is, write_traceback
from harness.evaluation.printed import is_printed_note, printed_logs, printed_note
from harness.evaluation.record import CaseKind, CaseResult, Mode, Protocol, Reason, ReasonCode, Status
from harness.evaluation.state import describe, warnings
from harness.measure.events import events_note
from harness.measure.ranking import Rank
from harness.measure.statistics import Figure, case_figure
from harness.store.rows import EvaluationRow, SubmissionRow
from harness.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FAILURES_SHOWN = 5
_NUMBER = re.compile(r"[-+−]?\b(?:\d[\d.,]*(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)
STATUS_STYLE = {
    Status.PASSED: "bold green",
    Status.RUNNING: "bold",
    Status.INTERRUPTED: "bold yellow",
}


def render_evaluation(
    console: Console,
    submission: SubmissionRow | None,
    evaluation: EvaluationRow,
    *,
    with_notes: bool = False,
    told: Sequence[str] = (),
) -> None:
    """Write the result screen: verdict, score and rank, cases, failures, where the time went, where the logs are.

    `told` are warnings that its reader has seen already.
    """
    leaderboard = submission.leaderboard if submission else ""
    if submission is not None:
        write(console, submission_line(submission), style="bold")
    header = evaluation.header
    interpreted = " · interpreted" if header.interpreted else ""
    write(console, f"{header.mode.value} · {format_class(evaluation.rank_class(leaderboard))}{interpreted}")
    console.print()
    _write_verdict(console, evaluation, told)
    _write_cases(console, evaluation)
    if not with_notes:  # where they are told with the others
        _write_disagreements(console, evaluation.cases)
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
        write_as_it_is(console, with_place(f"logs: {header.log}", header.log), style="dim")


def submission_line(submission: SubmissionRow) -> str:
    """What heads the screen of a submission: its id, board, file, user and the one before it."""
    parts = [
        f"submission {submission.id}",
        printable_name(submission.leaderboard),
        printable_name(submission.file_name),
        printable_name(submission.user),
    ]
    if submission.previous is not None:
        parts.append(f"the one before: {submission.previous}")
    return " · ".join(parts)


def _write_verdict(console: Console, evaluation: EvaluationRow, told: Sequence[str]) -> None:
    header, outcome = evaluation.header, evaluation.outcome
    line = outcome.status.value.upper()
    if evaluation.score is not None:
        line += f"   score {_score_text(evaluation.score, header.protocol)}"
    if evaluation.rank is not None:
        line += f"   {_rank_text(evaluation, evaluation.rank)}"
    write(console, line, style=STATUS_STYLE.get(outcome.status, "bold red"))
    if outcome.status is Status.PASSED and any(case.samples is not None for case in evaluation.cases):
        for warning in warnings(outcome.state):
            if warning not in told:
                write(console, f"warning: {printable(warning)}", style="yellow")
    if outcome.reason is not None and not _told_by_a_case(outcome.reason, evaluation.cases):
        write(console, _reason_text(outcome.reason))
    unmeasured = [case for case in evaluation.cases if _is_unmeasured(case)]
    if outcome.status is Status.PASSED and evaluation.score is None and unmeasured:
        took = "took no longer than a call of nothing: too short, or this machine too busy, to be timed"
        write(console, f"no score: {_which(unmeasured)} {took}", style="yellow")
    elif outcome.status is Status.PASSED and evaluation.rank is None:
        if outcome.rank_reason is not None:
            what = "no score" if outcome.rank_reason.code is ReasonCode.CASES_LEFT_OUT else "not ranked"
            write(console, f"{what}: {_reason_text(outcome.rank_reason)}", style="yellow")
        elif header.mode is not Mode.LEADERBOARD:
            write(console, f"not ranked: {header.mode.value} mode only looks", style="yellow")
    if evaluation.score is not None and header.protocol is not Protocol.HOSTED:
        count = sum(case.kind is CaseKind.BENCHMARK for case in evaluation.cases)
        words = _SCORE_WORDS[header.ranking_by.value].format(medians=counted(count, "benchmark median"))
        if evaluation.score.is_resolved:
            words += "; ± is half the 95 % interval"
        if evaluation.standing is not None and evaluation.standing.submission_id != evaluation.submission_id:
            words += "; the rank is that of the user's best file, which is another"
        write(console, f"score: {words}", style="dim")
    for log, size in printed_logs(evaluation.cases).items():
        write_as_it_is(console, with_place(printed_note(size, log), log))


def _is_unmeasured(case: CaseResult) -> bool:
    return case.kind is CaseKind.BENCHMARK and case.samples is not None and case_figure(case.samples) is None


_SCORE_WORDS = {
    "geom": "geometric mean of {medians}",
    "mean": "mean of {medians}",
    "last": "the median of the benchmark",
}


def _score_text(score: Figure, protocol: Protocol) -> str:
    """`51.2 ms ± 0.4 %`, or `51 ms (too noisy for an interval)`."""
    time, missing = format_time(score, protocol), without_interval(protocol)
    if score.is_resolved or not missing:
        return f"{time} {format_spread(score, protocol)}".rstrip()
    return f"{time} ({missing} for an interval)"


def _rank_text(evaluation: EvaluationRow, rank: Rank) -> str:
    """`rank 2`; `rank 1 stays with submission 7` for one by which its user does not stand in the ranking."""
    standing = evaluation.standing
    if standing is None or standing.submission_id == evaluation.submission_id:
        return f"rank {rank if standing is None else standing.rank}"
    return f"rank {standing.rank} stays with submission {standing.submission_id}"


def _told_by_a_case(reason: Reason, cases: Iterable[CaseResult]) -> bool:
    """Whether a case says the same; an evaluation's reason may name the case before its message."""
    return any(
        case.reason is not None and case.reason.code is reason.code and reason.message.endswith(case.reason.message)
        for case in cases
    )


def _reason_text(reason: Reason) -> str:
    """The message; the code alone where there is none, and behind it where a rule of trust was broken: docs/trust.md
    explains those by their codes."""
    code = reason.code.value.replace("_", " ")
    if not reason.message:
        return code
    return printable(reason.message) + (f" ({reason.code.value})" if reason.code in _TRUST_CODES else "")


_TRUST_CODES = (ReasonCode.BELOW_FLOOR, ReasonCode.LATE_OUTPUT, ReasonCode.CHANNEL)


def _write_cases(console: Console, evaluation: EvaluationRow) -> None:
    cases = evaluation.cases
    tests = [case for case in cases if case.kind is CaseKind.TEST]
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    if tests:
        passed = sum(case.status is Status.PASSED for case in tests)
        write(console, f"tests: {passed} of {len(tests)} passed")
    if tests and evaluation.header.mode is Mode.TEST:
        print_table(console, _test_table(tests))
    if benchmarks:
        print_table(console, benchmark_table(benchmarks, plain_table()))
        if told := processes_told(benchmarks):
            write(console, told, style="dim")
    missing = evaluation.header.cases_planned - len(cases)
    if missing > 0:
        verb = "not run yet" if evaluation.outcome.status is Status.RUNNING else "not run"
        write(console, f"{missing} of {counted(evaluation.header.cases_planned, 'case')} {verb}", style="yellow")


def _test_table(cases: Sequence[CaseResult]) -> Table:
    from rich.text import Text

    table = plain_table()
    table.add_column("#", justify="right")
    table.add_column("test")
    table.add_column("result", no_wrap=True)
    for case in cases:
        table.add_row(str(case.index), Text(format_case(case.spec)), Text(case.status.value))
    return table


def _write_failures(console: Console, evaluation: EvaluationRow) -> None:
    """Each kind of failure once, with the cases it struck, and the message and the traceback's end of the first.

    Failures that differ in numbers alone, as wrong answers do, are of one kind.
    """
    groups: dict[tuple[Status, ReasonCode | None, str, str], list[CaseResult]] = {}
    for case in evaluation.cases:
        if case.status is not Status.PASSED:
            code, message = (None, "") if case.reason is None else (case.reason.code, case.reason.message)
            groups.setdefault((case.status, code, shape(message), shape(case.traceback)), []).append(case)
    for (status, *_), cases in list(groups.items())[:FAILURES_SHOWN]:
        console.print()
        first, reason = cases[0], cases[0].reason
        spec = f" ({format_case(first.spec)})" if len(cases) == 1 else ""
        write(console, f"{_which(cases)}{spec}: {status.value}", style="red")
        if reason is not None:
            alike = all(case.reason == reason for case in cases)
            place = "" if alike else f"{first.kind.value} {first.index}: "
            if place or not ends_with(first.traceback, reason.message):
                write(console, place + _reason_text(reason), indent=2)
        write_traceback(console, first.traceback)
    if len(groups) > FAILURES_SHOWN:
        write(console, f"\n… {counted(len(groups) - FAILURES_SHOWN, 'further kind')} of failure; --json has all")


def shape(message: str) -> str:
    """A message without its numbers: what is equal in two of them is one kind."""
    return _NUMBER.sub("#", message)


def _which(cases: Sequence[CaseResult]) -> str:
    """`test 0–3, benchmark 1`."""
    kinds = dict.fromkeys(case.kind for case in cases)
    return ", ".join(
        f"{kind.value} {format_indices(case.index for case in cases if case.kind is kind)}" for kind in kinds
    )


def _write_disagreements(console: Console, cases: Iterable[CaseResult]) -> None:
    for case in cases:
        if case.kind is CaseKind.BENCHMARK and (note := events_note(case.samples)):
            write(console, f"{case.kind.value} {case.index}: {note}", style="dim")


def _write_notes(console: Console, cases: Iterable[CaseResult]) -> None:
    """Each kind of remark once, by the first case that has it: those of most cases differ in numbers alone."""
    groups: dict[tuple[CaseKind, str], dict[int, str]] = {}
    for case in cases:
        for note in case.notes:
            if is_printed_note(note):  # told after the verdict
                continue
            groups.setdefault((case.kind, shape(note)), {}).setdefault(case.index, note)
    for (kind, _), notes in groups.items():
        first, *others = notes
        if all(notes[index] == notes[first] for index in others):
            text = f"{kind.value} {format_indices(notes)}: {notes[first]}"
        else:
            text = f"{kind.value} {first}: {notes[first]} (alike: {format_indices(others)})"
        write(console, printable(text), style="dim")


__all__ = ["evaluation_document", "render_evaluation", "shape", "submission_line"]

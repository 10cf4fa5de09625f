"""The JSON documents of submissions and evaluations: stable field names, full precision, times in microseconds."""

from __future__ import annotations

from typing import Any

from harness.boards.board import CaseValue
from harness.evaluation.record import CaseResult, Reason
from harness.measure.statistics import Figure, case_figure, median
from harness.store.rows import EvaluationRow, SubmissionRow


def evaluation_document(submission: SubmissionRow | None, evaluation: EvaluationRow | None) -> dict[str, Any]:
    """The document of `submit --json`; `submission` is None for a run that is recorded nowhere.

    Times are microseconds at full precision. `samples` counts the timed calls, `events_us` is the median of the device
    events, `rank` the number alone, that this score holds by itself against the best of every other user.
    """
    return {
        "submission": None if submission is None else submission_document(submission),
        "evaluation": None if evaluation is None else _evaluation_part(evaluation),
    }


def submission_document(submission: SubmissionRow) -> dict[str, Any]:
    return {
        "id": submission.id,
        "leaderboard": submission.leaderboard,
        "user": submission.user,
        "file_name": submission.file_name,
        "sha256": submission.sha256,
        "previous": submission.previous,
    }


def figure_us(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value_ns / 1e3


def interval_us(figure: Figure | None) -> list[float] | None:
    if figure is None or figure.interval_ns is None:
        return None
    return [figure.interval_ns.low / 1e3, figure.interval_ns.high / 1e3]


def reason_document(reason: Reason | None) -> dict[str, str] | None:
    return None if reason is None else {"code": reason.code.value, "message": reason.message}


def _evaluation_part(evaluation: EvaluationRow) -> dict[str, Any]:
    header, outcome = evaluation.header, evaluation.outcome
    return {
        "id": evaluation.id,
        "mode": header.mode.value,
        "protocol": header.protocol.value,
        "grid": header.grid.value,
        "device": header.device.name,
        "isolation": header.isolation.value,
        "status": outcome.status.value,
        "reason": reason_document(outcome.reason or outcome.rank_reason),
        "score_us": figure_us(evaluation.score),
        "score_ci_us": interval_us(evaluation.score),
        "rank": None if evaluation.rank is None else evaluation.rank.number,
        "seed": header.seed,
        "versions": dict(header.versions),
        "log": header.log or None,
        "phases_s": dict(outcome.phases_s),
        "state": {name: dict(reading) for name, reading in outcome.state.items()},
        "cases": [_case_part(case) for case in evaluation.cases],
    }


def _case_part(case: CaseResult) -> dict[str, Any]:
    figure = case_figure(case.samples)
    events_ns = case.samples.events_ns if case.samples else ()
    return {
        "kind": case.kind.value,
        "index": case.index,
        "spec": {key: plain_value(value) for key, value in case.spec.items()},
        "status": case.status.value,
        "message": case.reason.message if case.reason else "",
        "traceback": case.traceback,
        "notes": list(case.notes),
        "median_us": figure_us(figure),
        "ci_us": interval_us(figure),
        "samples": len(case.samples.wall_ns) if case.samples else 0,
        "processes": case.samples.workers if case.samples else 0,
        "events_us": median(events_ns) / 1e3 if events_ns else None,
        "speed_of_light_us": None if case.speed_of_light_ns is None else case.speed_of_light_ns / 1e3,
    }


def plain_value(value: CaseValue) -> Any:
    """A case value as JSON has it; NaN and infinities, which JSON lacks, as text."""
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value

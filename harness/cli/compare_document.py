"""The document of `compare --json`, which `diff --measure --json` holds too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.cli.document import figure_us, interval_us, plain_value, reason_document
from harness.cli.operands import Side
from harness.measure.comparison import LEAST_THRESHOLD, Judgement

if TYPE_CHECKING:
    from harness.comparing.record import CaseComparison, PairedComparison


def compare_document(result: PairedComparison, a: Side, b: Side) -> dict[str, Any]:
    """The document of `compare --json`: stable names, full precision, times in microseconds, raw readings in ns."""
    return {
        "leaderboard": result.leaderboard,
        "a": _side(a),
        "b": _side(b),
        "grid": result.grid.value,
        "device": result.device.name,
        "isolation": result.isolation.value,
        "protocol": result.of.protocol.value,
        "processes": result.processes,
        "seed": result.seed,
        "versions": dict(result.versions),
        "log": result.log or None,
        "verdict": None if result.verdict is None else result.verdict.value,
        "score": None if result.overall is None else _judgement(result.overall),
        "cases": [_case(case) for case in result.cases],
    }


def _side(side: Side) -> dict[str, Any]:
    return {"id": None if side.submission is None else side.submission.id, "file_name": side.file_name}


def _case(case: CaseComparison) -> dict[str, Any]:
    from harness.comparing.record import Name

    a, b = case.figure(Name.A), case.figure(Name.B)
    judgement = case.judgement
    return {
        "index": case.index,
        "spec": {key: plain_value(value) for key, value in case.spec.items()},
        "failed": None if case.fault is None else case.fault.whose,
        "status": "passed" if case.fault is None else case.fault.status.value,
        "reason": None if case.fault is None else reason_document(case.fault.reason),
        "traceback": "" if case.fault is None else case.fault.traceback,
        "a_us": figure_us(a),
        "a_ci_us": interval_us(a),
        "b_us": figure_us(b),
        "b_ci_us": interval_us(b),
        **(_judgement(judgement) if judgement is not None else _NOTHING),
        "processes": case.processes,
        "units": len(case.paired),
        "readings_ns": [list(unit) for unit in case.paired],
        "null_readings_ns": [list(unit) for unit in case.null],
        "overhead_ns": list(case.overhead_ns),
    }


def _judgement(judgement: Judgement) -> dict[str, Any]:
    """The ratio is withheld where there is no verdict: what A against itself shows then is all that is known."""
    ratio = judgement.ratio if judgement.verdict is not None else None
    return {
        "verdict": None if judgement.verdict is None else judgement.verdict.value,
        "why": judgement.why.value,
        "ratio": None if ratio is None else ratio.value,
        "ratio_ci": None if ratio is None else [ratio.interval.low, ratio.interval.high],
        "null_ratio": None if judgement.null is None else judgement.null.value,
        "null_ci": None if judgement.null is None else [judgement.null.interval.low, judgement.null.interval.high],
        "threshold": judgement.threshold,
    }


_NOTHING: dict[str, Any] = {
    "verdict": None,
    "why": None,
    "ratio": None,
    "ratio_ci": None,
    "null_ratio": None,
    "null_ci": None,
    "threshold": LEAST_THRESHOLD,
}

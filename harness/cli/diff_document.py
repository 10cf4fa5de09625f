"""The document of `diff --json`."""

from __future__ import annotations

from typing import Any

from harness.cli.diff_screen import Difference
from harness.cli.document import figure_us, interval_us, plain_value, reason_document, submission_document
from harness.cli.operands import Side
from harness.history.comparison import CaseChange, Change


def diff_document(difference: Difference) -> dict[str, Any]:
    """The document of `diff --json`: stable field names, full precision, times in microseconds."""
    from harness.techniques.codec import finding_document

    comparison = difference.comparison
    changes = difference.technique_changes
    document: dict[str, Any] = {
        "old": _side_part(difference.old),
        "new": _side_part(difference.new),
        "renamed": list(difference.renamed) if difference.renamed else None,
        "code": [str(line) for line in difference.lines],
        "old_outcome": _outcome_part(difference, 0),
        "new_outcome": _outcome_part(difference, 1),
        "refusal": comparison.refusal or None if comparison else None,
        "score": _change_part(comparison.score) if comparison and comparison.score else None,
        "cases": [_case_part(case) for case in comparison.cases] if comparison else [],
        "notes": list(comparison.notes) if comparison else [],
        "techniques": {
            "lost": [finding_document(finding) for change in changes for finding in change.lost],
            "gained": [finding_document(finding) for change in changes for finding in change.gained],
        },
        "compilations": [],
        "measured": None,
    }
    if difference.compilations:
        from harness.cli.compile_diff import compilation_change_document

        document["compilations"] = [compilation_change_document(change) for change in difference.compilations]
    if difference.measured is not None:
        from harness.cli.compare_document import compare_document

        document["measured"] = compare_document(difference.measured, difference.old, difference.new)
    return document


def _side_part(side: Side) -> dict[str, Any]:
    if side.submission is None:
        return {"id": None, "file_name": side.file_name}
    return submission_document(side.submission)


def _outcome_part(difference: Difference, side: int) -> dict[str, Any] | None:
    """How the evaluation ended whose figures are compared; None where none is."""
    if difference.compared is None:
        return None
    outcome = difference.compared[side].outcome
    return {"status": outcome.status.value, "reason": reason_document(outcome.reason)}


def _case_part(case: CaseChange) -> dict[str, Any]:
    return {
        "spec": {key: plain_value(value) for key, value in case.spec.items()},
        "old_status": case.old_status.value if case.old_status else None,
        "new_status": case.new_status.value if case.new_status else None,
        "old_us": figure_us(case.old),
        "old_ci_us": interval_us(case.old),
        "new_us": figure_us(case.new),
        "new_ci_us": interval_us(case.new),
        **_ratio_part(case.change),
    }


def _change_part(change: Change) -> dict[str, Any]:
    return {
        "old_us": figure_us(change.old),
        "old_ci_us": interval_us(change.old),
        "new_us": figure_us(change.new),
        "new_ci_us": interval_us(change.new),
        **_ratio_part(change),
    }


def _ratio_part(change: Change | None) -> dict[str, Any]:
    interval = change.ratio_interval if change else None
    return {
        "ratio": change.ratio if change else None,
        "ratio_ci": [interval.low, interval.high] if interval else None,
        "verdict": change.verdict.value if change and change.verdict else None,
    }

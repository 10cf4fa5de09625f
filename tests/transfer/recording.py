"""How the tests of transfer put an evaluation into a store."""

from __future__ import annotations

from collections.abc import Iterable

from harness.evaluation.record import CaseResult, EvaluationHeader, EvaluationOutcome
from harness.store import Store


def record(
    store: Store, submission: int, header: EvaluationHeader, cases: Iterable[CaseResult], outcome: EvaluationOutcome
) -> None:
    evaluation = store.begin_evaluation(submission, header)
    for case in cases:
        store.add_case(evaluation, case)
    store.finish_evaluation(evaluation, outcome)

"""The score of an evaluation: one rule, for recorded and unrecorded ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from harness.boards.board import RankBy
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    EvaluationHeader,
    EvaluationOutcome,
    ReasonCode,
    Status,
)
from harness.measure.statistics import Figure, case_figure, score


def evaluation_score(
    header: EvaluationHeader, outcome: EvaluationOutcome, cases: Sequence[CaseResult]
) -> Figure | None:
    """The score of a passed evaluation over all its benchmark cases, in grid order.

    None when it did not pass, when cases were left out (a score of part of a grid compares with nothing), when it ran
    no benchmarks, and when a case has no meaningful figure. Cases were left out, too, where the numbers of those that
    ran lack one: an earlier harness did not say so in mode `benchmark`.
    """
    if outcome.status is not Status.PASSED:
        return None
    if outcome.rank_reason is not None and outcome.rank_reason.code is ReasonCode.CASES_LEFT_OUT:
        return None
    numbers = {case.index for case in cases if case.kind is CaseKind.BENCHMARK}
    if numbers != set(range(len(numbers))):
        return None
    try:
        return score_of_cases(header.ranking_by, cases)
    except ValueError:
        return None  # `last` over several benchmarks, which the loader refuses before anything runs


def benchmarks_digest(cases: Sequence[CaseResult]) -> str:
    """16 hexadecimal digits that name the benchmark cases among `cases` by their shapes, seeds aside; empty for none.

    A board that is edited keeps its name; scores over other benchmarks are scores of something else.
    """
    benchmarks = sorted((case for case in cases if case.kind is CaseKind.BENCHMARK), key=lambda case: case.index)
    if not benchmarks:
        return ""
    told = [{name: value for name, value in case.spec.items() if name != "seed"} for case in benchmarks]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def score_of_cases(rank_by: RankBy, cases: Sequence[CaseResult]) -> Figure | None:
    """The score of the benchmark cases among `cases`, which are a whole grid's; None where one of them has no
    meaningful figure, did not pass, or there are none. Raises ValueError for `last` over several."""
    benchmarks = sorted((case for case in cases if case.kind is CaseKind.BENCHMARK), key=lambda case: case.index)
    if any(case.status is not Status.PASSED for case in benchmarks):
        return None
    return score(rank_by, [case_figure(case.samples) for case in benchmarks])

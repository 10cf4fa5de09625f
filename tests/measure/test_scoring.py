from __future__ import annotations

from dataclasses import replace

from harness.boards.board import GridName, RankBy
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    Device,
    EvaluationHeader,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Protocol,
    Reason,
    ReasonCode,
    Samples,
    Status,
)
from harness.measure.scoring import evaluation_score

HEADER = EvaluationHeader(
    Mode.LEADERBOARD,
    Protocol.SEALED,
    GridName.FULL,
    Device("cuda", "NVIDIA H200"),
    IsolationLevel.BUBBLEWRAP,
    False,
    1,
    {},
    "",
    3,
)
PASSED = EvaluationOutcome(Status.PASSED, None)
TEST = CaseResult(CaseKind.TEST, 0, {"n": 1}, Status.PASSED)


def benchmark(index: int, time_ns: int) -> CaseResult:
    return CaseResult(CaseKind.BENCHMARK, index, {"n": index}, Status.PASSED, samples=Samples((time_ns,) * 7))


CASES = [TEST, benchmark(0, 200), benchmark(1, 800)]


def value(header: EvaluationHeader, outcome: EvaluationOutcome, cases: list[CaseResult]) -> float | None:
    figure = evaluation_score(header, outcome, cases)
    return None if figure is None else round(figure.value_ns, 9)


def test_score_over_the_benchmarks() -> None:
    assert value(HEADER, PASSED, CASES) == 400
    assert value(replace(HEADER, ranking_by=RankBy.MEAN), PASSED, CASES) == 500
    assert value(replace(HEADER, ranking_by=RankBy.LAST), PASSED, CASES[:2]) == 200


def test_no_score_of_what_is_not_whole() -> None:
    left_out = EvaluationOutcome(Status.PASSED, None, Reason(ReasonCode.CASES_LEFT_OUT, "--case 1"))
    assert value(HEADER, left_out, CASES) is None
    assert value(HEADER, replace(PASSED, status=Status.FAILED), CASES) is None
    assert value(HEADER, PASSED, [TEST]) is None
    assert value(HEADER, PASSED, [TEST, benchmark(1, 800)]) is None  # the first is missing, whatever the outcome says
    assert value(HEADER, PASSED, [*CASES[:2], replace(CASES[2], status=Status.ERROR)]) is None
    assert value(HEADER, PASSED, [*CASES[:2], replace(CASES[2], samples=None)]) is None
    assert value(replace(HEADER, ranking_by=RankBy.LAST), PASSED, CASES) is None


def test_an_unranked_score_is_still_a_score() -> None:
    interpreted = EvaluationOutcome(Status.PASSED, None, Reason(ReasonCode.INTERPRETED, ""))
    assert value(HEADER, interpreted, CASES) == 400

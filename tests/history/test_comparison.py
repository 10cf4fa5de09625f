from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.boards.board import GridName
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
from harness.history.comparison import Verdict, change, compare
from harness.measure.statistics import Figure, Interval
from harness.store.rows import EvaluationRow

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
    2,
)


def figure(value: float, half_width: float) -> Figure:
    return Figure(value, Interval(value - half_width, value + half_width))


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (figure(100, 1), figure(90, 1), Verdict.FASTER),
        (figure(100, 1), figure(110, 1), Verdict.SLOWER),
        (figure(100, 0.5), figure(100.2, 0.5), Verdict.SAME),
        (figure(100, 5), figure(104, 5), Verdict.UNSURE),
        (figure(100, 1), figure(97, 1), Verdict.UNSURE),  # intervals part by 1 %, but 98/99 leaves a ratio up to 0.99
        (Figure(100, None), figure(50, 1), Verdict.UNSURE),
    ],
)
def test_verdicts_at_two_percent_noise(old: Figure, new: Figure, verdict: Verdict) -> None:
    assert change(old, new, 0.02).verdict is verdict


def test_intervals_must_part_by_more_than_the_noise() -> None:
    old = figure(100, 0)
    assert change(old, figure(99.4, 0), 0.005).verdict is Verdict.FASTER
    assert change(old, figure(99.6, 0), 0.005).verdict is Verdict.SAME
    assert change(old, figure(100.6, 0), 0.005).verdict is Verdict.SLOWER


def benchmark(index: int, time_ns: int, **spec: Any) -> CaseResult:
    return CaseResult(CaseKind.BENCHMARK, index, spec, Status.PASSED, samples=Samples((time_ns,) * 7))


def row(*cases: CaseResult, **header: Any) -> EvaluationRow:
    outcome = EvaluationOutcome(Status.PASSED, None)
    return replace(EvaluationRow.unrecorded(replace(HEADER, **header), outcome, cases), id=len(cases))


def test_cases_are_matched_by_what_they_are() -> None:
    old = row(benchmark(0, 100, n=1, seed=5), benchmark(1, 400, n=2, seed=5))
    new = row(benchmark(0, 200, n=2, seed=6), benchmark(1, 100, n=1, seed=6), benchmark(2, 7, n=3, seed=6))
    result = compare(old, new, "cholesky", "cholesky")
    assert [(case.old_index, case.new_index) for case in result.cases] == [(1, 0), (0, 1), (None, 2)]
    first, second, third = result.cases
    assert first.change is not None
    assert (first.change.ratio, first.change.verdict) == (0.5, Verdict.FASTER)
    assert second.change is not None
    assert second.change.verdict is Verdict.SAME
    assert third.change is None
    assert any("different sessions" in note for note in result.notes)


def test_scores_of_other_benchmarks_are_not_compared() -> None:
    """Nor does a word on sessions stand where nothing is compared."""
    result = compare(row(benchmark(0, 100, n=1)), row(benchmark(0, 100, n=2)), "b", "b")
    assert [each.change for each in result.cases] == [None, None]
    assert result.score is None
    (note,) = result.notes
    assert note.startswith("The board's benchmarks changed in between")
    assert not result.offers_measuring
    seeds = compare(row(benchmark(0, 100, n=1, seed=1)), row(benchmark(0, 100, n=1, seed=2)), "b", "b")
    assert seeds.score is not None


def test_a_run_of_some_of_the_cases_is_no_change_of_the_board() -> None:
    """As records of mode `benchmark` that an earlier harness made have a score; the rows stay in the grid's order."""
    whole = row(benchmark(0, 100, n=1), benchmark(1, 100, n=2))
    part = row(benchmark(0, 100, n=1), mode=Mode.BENCHMARK)
    later = compare(whole, row(benchmark(1, 100, n=2), mode=Mode.BENCHMARK), "b", "b")
    assert later.score is None  # its number tells that one is missing
    assert not any("changed in between" in note for note in later.notes)
    for old, new, told in ((whole, part, "new ran only 1 of the 2 cases of old"), (part, whole, "old ran only 1 of")):
        result = compare(old, new, "b", "b")
        assert result.score is None
        assert result.notes[0].startswith(told)
        assert not any("changed in between" in note for note in result.notes)
        indices = [case.old_index if case.new_index is None else case.new_index for case in result.cases]
        assert indices == [0, 1]
    ranked = compare(whole, replace(part, header=replace(part.header, mode=Mode.LEADERBOARD)), "b", "b")
    assert "changed in between" in ranked.notes[0]  # a ranked run leaves nothing out


def test_published_scores_have_no_verdict() -> None:
    def published(score_ns: float) -> EvaluationRow:
        return replace(row(protocol=Protocol.HOSTED), id=int(score_ns), score=Figure(score_ns, None))

    result = compare(published(100), published(864), "b", "b")
    assert result.score is not None
    assert (result.score.ratio, result.score.verdict) == (8.64, None)
    assert result.notes == (
        "Both are claims of the file that they were imported from, without samples, so there is no verdict.",
    )
    assert result.offers_measuring


def test_a_case_that_repeats_is_matched_in_order() -> None:
    old = row(benchmark(0, 100, n=1), benchmark(1, 200, n=1))
    result = compare(old, row(benchmark(0, 100, n=1), benchmark(1, 100, n=1)), "b", "b")
    assert [case.change.ratio for case in result.cases if case.change] == [1.0, 0.5]


def test_a_failed_case_has_no_figure() -> None:
    bad = replace(benchmark(0, 100, n=1), status=Status.FAILED, reason=Reason(ReasonCode.WRONG_ANSWER, ""))
    (case,) = compare(row(benchmark(0, 100, n=1)), row(bad), "b", "b").cases
    assert (case.new, case.new_status, case.change) == (None, Status.FAILED, None)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"grid": GridName.CPU}, "another grid (full, then cpu)"),
        ({"device": Device("cuda", "NVIDIA B200")}, "another device (NVIDIA H200, then NVIDIA B200)"),
        ({"protocol": Protocol.POPCORN}, "another protocol (sealed-1, then popcorn)"),
        ({"interpreted": True}, "interpreter"),
    ],
)
def test_what_is_never_compared(changes: dict[str, Any], word: str) -> None:
    result = compare(row(benchmark(0, 100, n=1)), row(benchmark(0, 50, n=1), **changes), "b", "b")
    assert word in result.refusal
    assert not result.cases
    assert result.score is None


def test_boards_are_never_compared() -> None:
    one = row(benchmark(0, 100, n=1))
    assert "another board (a, then b)" in compare(one, one, "a", "b").refusal


def test_another_isolation_is_noted() -> None:
    one = row(benchmark(0, 100, n=1))
    result = compare(one, row(benchmark(0, 100, n=1), isolation=IsolationLevel.NONE), "b", "b")
    assert "The isolation differs: bubblewrap, then none." in result.notes

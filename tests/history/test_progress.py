from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from harness.boards.board import GridName
from harness.evaluation.record import IsolationLevel, Mode, Protocol, Reason, ReasonCode, Status
from harness.history.progress import best_run, rank_now, steps
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure, Interval
from harness.store.rows import HistoryRow

CLASS = RankClass("cholesky", GridName.FULL, "cuda", "NVIDIA H200", Protocol.SEALED, IsolationLevel.BUBBLEWRAP)


def row(number: int, score_ns: float | None, rank_class: RankClass = CLASS) -> HistoryRow:
    return HistoryRow(
        id=number,
        leaderboard=rank_class.leaderboard,
        user="ada",
        file_name="a.py",
        sha256="",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        evaluation_id=number,
        mode=Mode.LEADERBOARD,
        status=Status.PASSED,
        reason=None,
        rank_reason=None,
        rank_class=rank_class,
        interpreted=False,
        score=None if score_ns is None else Figure(score_ns, None),
    )


def changes(rows: list[HistoryRow]) -> list[tuple[float | None, float | None]]:
    return [(step.against_previous, step.against_best) for step in steps(rows)]


def test_against_the_one_before_and_the_best() -> None:
    rows = [row(1, 100), row(2, 50), row(3, 75), row(4, None), row(5, 150)]
    assert changes(rows) == [(None, None), (0.5, 0.5), (1.5, 1.5), (None, None), (2.0, 3.0)]


def test_other_classes_do_not_count() -> None:
    laptop = replace(CLASS, grid=GridName.CPU, device_kind="cpu", device="a processor")
    assert changes([row(1, 100), row(2, 5000, laptop), row(3, 50)]) == [(None, None), (None, None), (0.5, 0.5)]


def test_isolation_alone_does_not_keep_scores_apart() -> None:
    bare = replace(CLASS, isolation=IsolationLevel.NONE)
    assert changes([row(1, 100), row(2, 50, bare)]) == [(None, None), (0.5, 0.5)]


def test_interpreted_runs_are_not_compared() -> None:
    interpreted = replace(row(2, 50), interpreted=True)
    assert changes([row(1, 100), interpreted, row(3, 100)]) == [(None, None), (None, None), (1.0, 1.0)]


def test_the_predecessor_is_the_submission_before_on_the_board() -> None:
    elsewhere = replace(CLASS, leaderboard="softmax")
    rows = [row(1, 100), row(2, 5, elsewhere), row(3, None), row(4, 90), replace(row(4, 80), evaluation_id=5)]
    found = [step.predecessor for step in steps(rows)]
    assert [None if each is None else each.id for each in found] == [None, None, 1, 3, 3]


def test_best_when_made() -> None:
    rows = [row(1, 100), row(2, 120), row(3, 90), row(4, None)]
    assert [step.is_best for step in steps(rows)] == [True, False, True, False]


def test_rank_now_is_against_the_best_of_the_others() -> None:
    ranked = replace(row(1, 100), rank_then=1)
    now = rank_now(ranked, {"ada": 50.0, "bob": 90.0, "eve": 99.8, "joe": 120.0})
    assert now is not None
    assert str(now) == "2="  # eve is within the noise, ada's own best does not count
    assert rank_now(row(1, 100), {"bob": 90.0}) is None
    assert rank_now(ranked, {}) is None


def test_changes_within_the_noise_are_unsure() -> None:
    """On a GPU whose noise between runs is 0.5 %: 100 ± 0.1 against 99.7, 99.0, and 50 without an interval."""

    def sharp(number: int, score_ns: float) -> HistoryRow:
        return replace(row(number, score_ns), score=Figure(score_ns, Interval(score_ns - 0.1, score_ns + 0.1)))

    told = steps([sharp(1, 100.0), sharp(2, 99.7), sharp(3, 98.0), sharp(4, 99.9), row(5, 50.0)])
    assert [step.unsure_of_previous for step in told] == [False, True, False, False, True]
    assert [step.unsure_of_best for step in told] == [False, True, False, False, True]


def test_published_scores_stand_by_value() -> None:
    hosted = replace(CLASS, protocol=Protocol.HOSTED)
    assert not any(step.unsure_of_previous for step in steps([row(1, 100, hosted), row(2, 99.9, hosted)]))


def test_only_what_ranks_is_a_best_one() -> None:
    noisy = replace(row(2, 50), rank_reason=Reason(ReasonCode.TOO_NOISY, ""))
    looked = replace(row(3, 60), mode=Mode.BENCHMARK)
    rows = [row(1, 100), noisy, looked, row(4, 90)]
    assert changes(rows) == [(None, None), (0.5, 0.5), (1.2, 0.6), (1.5, 0.9)]
    assert [step.is_best for step in steps(rows)] == [True, False, False, True]
    assert best_run(rows) is rows[3]
    assert best_run([noisy, looked]) is None


def test_a_protocol_that_never_ranks_has_best_ones() -> None:
    popcorn = replace(CLASS, protocol=Protocol.POPCORN)
    unsealed = [
        replace(row(number, score, popcorn), rank_reason=Reason(ReasonCode.UNSEALED_PROTOCOL, ""))
        for number, score in ((1, 100), (2, 50))
    ]
    assert [step.is_best for step in steps(unsealed)] == [True, True]

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import GridName
from harness.evaluation.record import IsolationLevel, Mode, Protocol, ReasonCode, Status
from harness.measure.ranking import (
    Entry,
    Rank,
    RankClass,
    best_per_user,
    pool_by_source,
    rank_among,
    rank_in,
    ranks,
    why_unranked,
)
from harness.measure.statistics import Figure, Interval

CLASS = RankClass("cholesky", GridName.FULL, "cuda", "NVIDIA H200", Protocol.SEALED, IsolationLevel.BUBBLEWRAP)


def entry(user: str, source: str, score_ns: float, evaluation: int, rank_class: RankClass = CLASS) -> Entry:
    return Entry(
        rank_class,
        user,
        source,
        evaluation,
        evaluation,
        "a.py",
        datetime(2026, 1, 1, tzinfo=UTC),
        Figure(score_ns, Interval(score_ns - 1, score_ns + 1)),
    )


@pytest.mark.parametrize(
    ("scores", "delta", "expected"),
    [
        ([100.0], 0.01, ["1"]),
        ([100.0, 200.0, 300.0], 0.01, ["1", "2", "3"]),
        ([300.0, 100.0, 200.0], 0.01, ["3", "1", "2"]),
        ([100.0, 100.5, 200.0], 0.01, ["1=", "1=", "3"]),
        ([100.0, 100.0], 0.0, ["1=", "1="]),
        # Each within 1 % of the next; the third is beyond 1 % of the first alone, so one is faster.
        ([100.0, 100.8, 101.6], 0.01, ["1=", "1=", "2"]),
        # 1.01 · 100 is not below 101: exactly δ apart is equal.
        ([100.0, 101.0], 0.01, ["1=", "1="]),
        ([], 0.01, []),
    ],
)
def test_ranks(scores: list[float], delta: float, expected: list[str]) -> None:
    assert [str(rank) for rank in ranks(scores, delta)] == expected


@given(st.lists(st.floats(1.0, 1e6), max_size=40), st.floats(0.0, 0.1))
def test_ranks_follow_the_definition(scores: list[float], delta: float) -> None:
    expected = [1 + sum(y * (1 + delta) < x for y in scores) for x in scores]
    got = ranks(scores, delta)
    assert [rank.number for rank in got] == expected
    assert [rank.tied for rank in got] == [expected.count(number) > 1 for number in expected]


def test_runs_of_one_source_count_by_their_median() -> None:
    runs = [entry("ada", "s1", score_ns, number) for number, score_ns in enumerate([110.0, 90.0, 100.0])]
    (pooled,) = pool_by_source(runs)
    assert pooled.score == Figure(100.0, Interval(99.0, 101.0))
    assert (pooled.runs, pooled.evaluation_id) == (3, 2)


def test_resubmitting_gains_nothing() -> None:
    lucky = [entry("ada", "s1", 100.0, number) for number in range(19)] + [entry("ada", "s1", 50.0, 19)]
    assert best_per_user(lucky)[0].score.value_ns == 100.0


def test_the_best_is_over_distinct_sources() -> None:
    entries = [entry("ada", "s1", 100.0, 1), entry("ada", "s2", 80.0, 2), entry("bob", "s2", 90.0, 3)]
    assert [(best.user, best.score.value_ns) for best in best_per_user(entries)] == [("ada", 80.0), ("bob", 90.0)]


def test_classes_are_kept_apart() -> None:
    other = replace(CLASS, grid=GridName.CPU)
    entries = [entry("ada", "s1", 100.0, 1), entry("ada", "s1", 10.0, 2, other)]
    assert len(best_per_user(entries)) == 2
    assert rank_among(entries[0], entries) == Rank(1)


def test_rank_of_one_run_is_against_other_users() -> None:
    entries = [
        entry("ada", "s1", 100.0, 1),
        entry("ada", "s2", 80.0, 2),
        entry("bob", "s3", 90.0, 3),
        entry("eve", "s4", 100.1, 4),
    ]
    assert rank_among(entries[0], entries) == Rank(2, tied=True)
    assert rank_among(entries[1], entries) == Rank(1)


RANKS: dict[str, Any] = {
    "mode": Mode.LEADERBOARD,
    "protocol": Protocol.SEALED,
    "status": Status.PASSED,
    "interpreted": False,
    "isolation": IsolationLevel.UID,
    "rank_reason": None,
    "unisolated_allowed": False,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"mode": Mode.BENCHMARK}, Mode.BENCHMARK),
        ({"status": Status.TIMEOUT}, Status.TIMEOUT),
        ({"protocol": Protocol.POPCORN}, ReasonCode.UNSEALED_PROTOCOL),
        ({"interpreted": True}, ReasonCode.INTERPRETED),
        ({"rank_reason": ReasonCode.CASES_LEFT_OUT}, ReasonCode.CASES_LEFT_OUT),
        ({"isolation": IsolationLevel.NONE}, ReasonCode.NOT_ISOLATED),
        ({"rank_reason": ReasonCode.NOT_ISOLATED}, ReasonCode.NOT_ISOLATED),
        ({"isolation": IsolationLevel.NONE, "unisolated_allowed": True}, None),
        ({"rank_reason": ReasonCode.NOT_ISOLATED, "unisolated_allowed": True}, None),
        ({"protocol": Protocol.POPCORN, "unisolated_allowed": True}, ReasonCode.UNSEALED_PROTOCOL),
        ({"interpreted": True, "unisolated_allowed": True}, ReasonCode.INTERPRETED),
    ],
)
def test_who_ranks(changes: dict[str, Any], expected: object) -> None:
    assert why_unranked(**{**RANKS, **changes}) is expected


@given(st.lists(st.floats(1.0, 2.0) | st.sampled_from([1.0, 1.01, 1.5]), max_size=20), st.data())
def test_one_rank_is_that_among_all(others: list[float], data: st.DataObject) -> None:
    score = data.draw(st.floats(0.9, 2.1) | st.sampled_from([1.0, *others]))
    delta = data.draw(st.sampled_from([0.0, 0.01, 0.1]))
    assert rank_in(score, sorted(others), delta) == ranks([score, *others], delta)[0]

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from harness.boards.board import GridName
from harness.evaluation.record import IsolationLevel, Mode, Protocol, Status
from harness.history.progress import steps
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure
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

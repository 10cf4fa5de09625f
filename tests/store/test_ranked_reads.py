"""What takes part in a ranking, read from a real store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.boards.board import GridName, Spec
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
from harness.store import Store, best_score_ns, open_reader

HEADER = EvaluationHeader(
    Mode.LEADERBOARD,
    Protocol.SEALED,
    GridName.CPU,
    Device("cpu", "a processor"),
    IsolationLevel.BUBBLEWRAP,
    False,
    1,
    {},
    "",
    1,
)
PASSED = EvaluationOutcome(Status.PASSED, None)


def add(
    user: str,
    time_ns: int,
    header: EvaluationHeader = HEADER,
    outcome: EvaluationOutcome = PASSED,
    source: str | None = None,
    spec: Spec | None = None,
) -> int:
    with Store.open() as store:
        submission = store.add_submission("board", user, "a.py", source or f"# {time_ns}")
        evaluation = store.begin_evaluation(submission, header)
        store.add_case(
            evaluation, CaseResult(CaseKind.BENCHMARK, 0, spec or {}, Status.PASSED, samples=Samples((time_ns,) * 7))
        )
        store.finish_evaluation(evaluation, outcome)
        return evaluation


def rank_of(evaluation: int) -> str | None:
    with open_reader() as reader:
        row = reader.evaluation(evaluation)
    assert row is not None
    return None if row.rank is None else str(row.rank)


def test_rank_of_each_evaluation(home: Path) -> None:
    slow, fast, close, far = add("ada", 2000), add("ada", 1000), add("bob", 1010), add("eve", 5000)
    assert [rank_of(each) for each in (slow, fast, close, far)] == ["2", "1=", "1=", "3"]


def test_only_sealed_complete_runs_rank(home: Path) -> None:
    add("ada", 1000)
    others = {
        ReasonCode.UNSEALED_PROTOCOL: add("bob", 10, replace(HEADER, protocol=Protocol.POPCORN)),
        ReasonCode.INTERPRETED: add("bob", 10, replace(HEADER, interpreted=True)),
        ReasonCode.NOT_ISOLATED: add("bob", 10, replace(HEADER, isolation=IsolationLevel.NONE)),
    }
    left_out = Reason(ReasonCode.CASES_LEFT_OUT, "--case 0")
    assert rank_of(add("bob", 10, HEADER, replace(PASSED, rank_reason=left_out))) is None
    assert rank_of(add("bob", 10, replace(HEADER, mode=Mode.BENCHMARK))) is None
    assert rank_of(add("bob", 10, HEADER, EvaluationOutcome(Status.FAILED, left_out))) is None
    assert {rank_of(each) for each in others.values()} == {None}
    with open_reader() as reader:
        assert [entry.user for entry in reader.entries("board")] == ["ada"]
        assert reader.unranked("board") == dict.fromkeys(others, 1)


def test_the_owner_may_rank_what_was_not_isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = Reason(ReasonCode.NOT_ISOLATED, "no sandbox")
    bare = replace(HEADER, isolation=IsolationLevel.NONE)
    evaluation = add("bob", 10, bare, replace(PASSED, rank_reason=reason))
    assert rank_of(evaluation) is None
    monkeypatch.setenv("HARNESS_RANK_UNISOLATED", "1")
    assert rank_of(evaluation) == "1"


def test_best_score_is_of_the_class_used_last(home: Path) -> None:
    add("ada", 1000)
    add("ada", 900)
    add("ada", 950)
    assert best_score_ns("board", "ada") == 900.0
    add("ada", 50, replace(HEADER, grid=GridName.FULL, device=Device("cuda", "NVIDIA H200")))
    assert best_score_ns("board", "ada") == 50.0
    add("ada", 2000)
    assert best_score_ns("board", "ada") == 900.0
    assert best_score_ns("board", "bob") is None


def test_best_score_pools_runs_of_one_source(home: Path) -> None:
    for time_ns in (1000, 900, 100):
        add("ada", time_ns, source="same")
    assert best_score_ns("board", "ada") == 900.0


def test_scores_of_other_benchmarks_rank_apart(home: Path) -> None:
    """A board that is edited keeps its name."""
    add("ada", 1000, source="same", spec={"n": 1_000_000, "seed": 1})
    add("ada", 1200, source="same", spec={"n": 1_000_000, "seed": 2})
    small = add("ada", 10, source="same", spec={"n": 10, "seed": 1})
    assert rank_of(small) == "1"
    assert rank_of(add("bob", 500, spec={"n": 1_000_000, "seed": 1})) == "1"
    with open_reader() as reader:
        standings = [reader.best_of_users(of)[0] for of in reader.board_classes("board")]
        history = reader.history("ada")
    assert [[(each.user, each.score.value_ns) for each in found] for found in standings] == [
        [("bob", 500.0), ("ada", 1100.0)],
        [("ada", 10.0)],
    ]
    assert history[0].comparable == history[1].comparable != history[2].comparable

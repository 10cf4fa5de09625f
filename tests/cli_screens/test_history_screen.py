"""Which runs `harness history` calls best, what it says of those that do not rank, and what it leaves out where it is
narrow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from sample_store import HEADER, PASSED, benchmark_case, passed

from harness.cli.layout import Column, fitted_table
from harness.evaluation.record import IsolationLevel, Mode, Protocol, Reason, ReasonCode, Samples
from harness.store import Store

Run = Callable[..., Result]


def run_of(
    store: Store, us: float, mode: Mode = Mode.LEADERBOARD, reason: ReasonCode | None = None, **header: object
) -> int:
    submission = store.add_submission("cholesky", "ada", "cholesky_blocked.py", f"# {us} {mode}\n")
    evaluation = store.begin_evaluation(submission, replace(HEADER, mode=mode, **header))  # type: ignore[arg-type]
    if mode is not Mode.TEST:
        store.add_case(evaluation, benchmark_case(0, us))
    store.finish_evaluation(evaluation, replace(PASSED, rank_reason=reason and Reason(reason, "why")))
    return submission


@pytest.fixture
def runs(home: Path) -> Path:
    """1 ranks; 2 is faster, but too noisy to rank; 3 is faster than 1; 4 only looks; 5 is a test."""
    with Store.open() as store:
        run_of(store, 200.0)
        run_of(store, 20.0, reason=ReasonCode.TOO_NOISY)
        run_of(store, 150.0)
        run_of(store, 100.0, Mode.BENCHMARK)
        run_of(store, 1.0, Mode.TEST)
    return home


def rows_of(text: str) -> dict[str, str]:
    folded = (" ".join(line.split()) for line in text.splitlines())
    return {line.split()[0]: line for line in folded if line[:1].isdigit()}


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_run_that_does_not_rank_is_no_best_one(
    runs: Path, harness: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = harness("history").output
    assert max(map(len, shown.splitlines())) <= width
    rows = rows_of(shown)
    assert "first" in rows["1"]
    assert rows["2"].endswith("20.00 µs ± 0.8 % −90.0 % −90.0 %")
    assert "new best" in rows["3"]
    assert rows["4"].endswith("100.00 µs ± 0.8 % −33.3 % −33.3 %")
    assert rows["5"].endswith("test passed")
    told = " ".join(shown.split())
    assert "not ranked: 2 (too noisy), 4 (benchmark mode) trend" in told
    assert "best run 150.0 µs by 3" in told
    assert [line for line in shown.splitlines() if line.strip() in ("too", "noisy", "test", "benchmark")] == []


@pytest.mark.parametrize("recorded_before", [False, True])
def test_a_run_of_some_cases_leaves_best_rank_and_trend(home: Path, harness: Run, recorded_before: bool) -> None:
    """With a score, as records of an earlier harness have it, and without."""
    reason = None if recorded_before else Reason(ReasonCode.CASES_LEFT_OUT, "only 1 of 2 benchmark cases was run")
    with Store.open() as store:
        for us in (200.0, 100.0):
            passed(store, "ada", f"# {us}", (us, us))
        submission = store.add_submission("cholesky", "ada", "k.py", "# part")
        evaluation = store.begin_evaluation(submission, replace(HEADER, mode=Mode.BENCHMARK))
        store.add_case(evaluation, benchmark_case(1, 1.0))
        store.finish_evaluation(evaluation, replace(PASSED, rank_reason=reason))
        store.add_submission("softmax", "ada", "a.py", "x")
    row = next(line for line in harness("history").output.splitlines() if line.startswith("cholesky"))
    assert "100.00 µs" in row
    assert row.endswith("1 of 1  █▁")
    shown = harness("history", "cholesky").output
    assert "trend  █▁  200 µs → 100 µs, oldest to newest; best run 100.00 µs by 2" in shown
    if not recorded_before:
        assert rows_of(shown)["3"].endswith("k.py 1 of 2 cases")
        told = "no score is compared: new has none (it ran 1 of 2 cases)"
        assert told in harness("diff", "2", "3").output
        assert "no score: only 1 of 2 benchmark cases was run" in harness("show", "3").output


def test_popcorns_score_has_too_few_samples_wherever_it_stands(home: Path, harness: Run) -> None:
    for_one = replace(benchmark_case(0, 1.0), samples=Samples((2_000,)))
    with Store.open() as store:
        for number in (1, 2):
            submission = store.add_submission("cholesky", "ada", "k.py", f"# {number}")
            evaluation = store.begin_evaluation(submission, replace(HEADER, protocol=Protocol.POPCORN))
            store.add_case(evaluation, for_one)
            store.finish_evaluation(evaluation, PASSED)
    told = {command: harness(*command).output for command in (("history",), ("show", "1"), ("diff", "1", "2"))}
    assert not any("too noisy" in text for text in told.values())
    assert "PASSED   score 2.0 µs (too few samples for an interval)" in told["show", "1"]
    assert rows_of(told[("history",)])["1"].endswith("2.0 µs too few samples first")
    assert "1.0 too few samples" in " ".join(told["diff", "1", "2"].split())


def test_best_ones_in_json_and_alone(runs: Path, harness: Run) -> None:
    document = json.loads(harness("history", "--json").output)
    assert {row["id"]: row["new_best"] for row in document["submissions"]} == {
        1: True, 2: False, 3: True, 4: False, 5: False,
    }  # fmt: skip
    assert set(rows_of(harness("history", "--best").output)) == {"1", "3"}


def test_where_none_of_a_class_ranks_they_are_compared_among_themselves(
    home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open() as store:
        for us in (100.0, 90.0):
            run_of(store, us, reason=ReasonCode.NOT_ISOLATED, isolation=IsolationLevel.NONE)
    shown = harness("history").output
    assert "new best" in rows_of(shown)["2"]
    assert "best run 90.00 µs by 2" in shown
    assert "none of them ranks: not isolated" in shown
    monkeypatch.setenv("HARNESS_RANK_UNISOLATED", "1")
    assert "ranks:" not in harness("history").output


def test_the_best_of_many_boards_ranks(runs: Path, harness: Run) -> None:
    with Store.open() as store:
        store.add_submission("softmax", "ada", "a.py", "x")
    row = next(line for line in harness("history").output.splitlines() if line.startswith("cholesky"))
    assert "150.0 µs" in row


def test_limit_of_json(runs: Path, harness: Run) -> None:
    def ids(*arguments: str) -> list[int]:
        return [row["id"] for row in json.loads(harness("history", "--json", *arguments).output)["submissions"]]

    assert ids("--limit", "2") == [5, 4]
    assert ids("--limit", "0") == ids() == [5, 4, 3, 2, 1]


def test_columns_go_in_their_order_before_names_are_cut_short() -> None:
    columns = [Column("file", of_names=True), Column("score"), Column("spread", goes=2), Column("when", goes=1)]
    rows = [["a_long_name_of_a_file.py", "12.3 µs", "± 1 %", "Nov 30"]]

    def shown(width: int) -> list[str]:
        return [str(column.header) for column in fitted_table(columns, rows, width).columns]

    assert shown(80) == shown(35) == ["file", "score", "spread", "when"]
    assert shown(34) == shown(27) == ["file", "score", "spread"]
    assert shown(26) == shown(10) == ["file", "score"]


def test_an_empty_column_goes_before_a_name_is_cut() -> None:
    columns = [Column("file", of_names=True), Column("score"), Column("95 %")]
    name = "a_long_name_of_a_file.py"

    def shown(width: int, spread: str) -> list[str]:
        return [str(column.header) for column in fitted_table(columns, [[name, "12.3 µs", spread]], width).columns]

    assert shown(40, "") == ["file", "score", "95 %"]
    assert shown(35, "") == ["file", "score"]
    assert shown(35, "± 1 %") == ["file", "score", "95 %"]

"""A case measured in several worker processes by turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.boards.loader import load_board
from harness.evaluation.crew import crew_size
from harness.evaluation.evaluate import Evaluation
from harness.evaluation.plan import Plan
from harness.evaluation.record import CaseKind, CaseResult, Device, IsolationLevel, Mode, ReasonCode, Status
from harness.measure.statistics import case_figure

BOARD = load_board(Path(__file__).parents[2] / "scripts" / "faults" / "board")
# The folder that a worker's code lies in is named by the worker's number: with n workers 1 to n are the twins, n + 1
# runs the tests, and the benchmarks' follow.
KERNEL = """#!POPCORN leaderboard board
import os
import pathlib
import time

import torch

NUMBER = int(pathlib.Path(__file__).parts[-3].split("-")[0])
print("loaded", NUMBER, flush=True)
{loading}


def custom_kernel(data):
    {calling}
    time.sleep(0.005)
    return data + 1
"""
GIB = 1 << 30


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def evaluate(tmp_path: Path) -> Callable[..., list[CaseResult]]:
    def run(workers: int, *, loading: str = "", calling: str = "") -> list[CaseResult]:
        source = KERNEL.format(loading=loading, calling=calling)
        plan = Plan(BOARD, source, "kernel.py", Mode.LEADERBOARD, isolation=IsolationLevel.NONE, workers=workers)
        return [event for event in Evaluation(plan, tmp_path / "logs").events() if isinstance(event, CaseResult)]

    return run


def out_of_memory(condition: str) -> str:
    return f"if {condition}: raise torch.OutOfMemoryError('none left')"


def test_calls_go_through_all_workers_by_turns(evaluate: Callable[..., list[CaseResult]], tmp_path: Path) -> None:
    cases = evaluate(3)
    assert {case.status for case in cases} == {Status.PASSED}
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    assert benchmarks
    for case in benchmarks:
        assert case.samples is not None
        assert case.samples.workers == 3
        assert len(case.samples.wall_ns) >= 7
        figure = case_figure(case.samples)
        assert figure is not None
        assert figure.interval_ns is not None
    logs = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert [name.split("-")[1] for name in logs] == [*["twin.log"] * 3, "test.log", *["benchmark.log"] * 3]
    loaded = [(tmp_path / "logs" / name).read_text().split("loaded")[1:] for name in logs if "benchmark" in name]
    assert loaded == [[" 5\n"], [" 6\n"], [" 7\n"]]


def test_without_memory_for_all_one_measures_alone(evaluate: Callable[..., list[CaseResult]]) -> None:
    # The second of the two runs out of memory in its first benchmark.
    cases = evaluate(2, calling=out_of_memory("NUMBER == 5"))
    assert {case.status for case in cases} == {Status.PASSED}
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    assert [case.samples.workers for case in benchmarks if case.samples is not None] == [1] * len(benchmarks)
    notes = [[note for note in case.notes if "no memory for 2" in note] for case in benchmarks]
    assert [len(found) for found in notes] == [1, *[0] * (len(benchmarks) - 1)]


def test_the_second_attempt_has_other_inputs(evaluate: Callable[..., list[CaseResult]], tmp_path: Path) -> None:
    # What a crew has seen before one of it claims to be out of memory helps nobody after it.
    told = 'print("saw", float(data.flatten()[0]), flush=True); '
    cases = evaluate(2, calling=told + "0 if NUMBER != 5 else (_ for _ in ()).throw(torch.OutOfMemoryError())")
    assert {case.status for case in cases} == {Status.PASSED}
    seen = {
        name: [line for line in (tmp_path / "logs" / name).read_text().splitlines() if line.startswith("saw")]
        for name in ("04-benchmark.log", "06-benchmark.log")
    }
    assert seen["04-benchmark.log"]
    assert seen["06-benchmark.log"]
    assert not set(seen["04-benchmark.log"]) & set(seen["06-benchmark.log"])


def test_the_log_that_is_named_is_that_of_the_worker_that_failed(evaluate: Callable[..., list[CaseResult]]) -> None:
    cases = evaluate(3, calling="if NUMBER == 7: print('why', flush=True); raise ValueError('no')")
    first = next(case for case in cases if case.kind is CaseKind.BENCHMARK)
    assert first.status is Status.FAILED
    assert any("07-benchmark.log" in note for note in first.notes)


def test_workers_load_side_by_side(evaluate: Callable[..., list[CaseResult]]) -> None:
    began = time.perf_counter()
    cases = evaluate(4, loading="if NUMBER > 5: time.sleep(2)")
    assert {case.status for case in cases} == {Status.PASSED}
    assert time.perf_counter() - began < 8 + 4  # one after the other they alone would take 8 s


def test_one_process_measures_where_a_first_call_is_slow(
    evaluate: Callable[..., list[CaseResult]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.evaluation.cases.SLOW_FIRST_CALL_S", 0.5)
    cases = evaluate(3, calling="if not globals().setdefault('slept', 0): globals()['slept'] = 1; time.sleep(0.6)")
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    assert benchmarks[0].samples is not None
    assert benchmarks[0].samples.workers == 1
    assert {case.status for case in cases} == {Status.PASSED}


def test_what_has_no_memory_alone_either_fails(evaluate: Callable[..., list[CaseResult]]) -> None:
    cases = evaluate(2, calling=out_of_memory("NUMBER >= 4"))
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    assert {case.status for case in benchmarks} == {Status.ERROR}
    assert {case.reason.code for case in benchmarks if case.reason is not None} == {ReasonCode.OUT_OF_MEMORY}


def test_a_worker_that_fails_fails_the_case(evaluate: Callable[..., list[CaseResult]]) -> None:
    cases = evaluate(2, calling="if NUMBER == 5: os._exit(3)")
    first = next(case for case in cases if case.kind is CaseKind.BENCHMARK)
    assert first.status is Status.ERROR
    assert first.reason is not None
    assert "exit code 3" in first.reason.message


def test_a_submission_that_loads_in_one_worker_only_is_not_measured(
    evaluate: Callable[..., list[CaseResult]],
) -> None:
    cases = evaluate(2, loading="if NUMBER == 5: raise ValueError('not here')")
    benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
    assert {case.reason.code for case in benchmarks if case.reason is not None} == {ReasonCode.IMPORT_FAILED}
    assert {case.status for case in benchmarks} == {Status.FAILED}


def test_how_many_measure() -> None:
    def device(memory: int) -> Device:
        return Device("cuda", "some GPU", {"memory_bytes": memory})

    assert crew_size(Mode.LEADERBOARD, device(139 * GIB), 128 * GIB) == 5
    assert crew_size(Mode.LEADERBOARD, device(24 * GIB), 128 * GIB) == 3
    assert crew_size(Mode.LEADERBOARD, device(139 * GIB), 16 * GIB) == 2
    assert crew_size(Mode.LEADERBOARD, device(6 * GIB), 128 * GIB) == 1
    assert crew_size(Mode.BENCHMARK, device(139 * GIB), 128 * GIB) == 1
    assert crew_size(Mode.LEADERBOARD, Device("cpu", "some CPU", {"cores": os.cpu_count() or 1})) == 1

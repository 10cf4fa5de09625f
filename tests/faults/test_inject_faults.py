"""A short campaign of the real script, and proof that its checks can fail."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
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
    Samples,
    Status,
)
from harness.store import Store

REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / "scripts" / "inject_faults"
HEADER = EvaluationHeader(
    mode=Mode.LEADERBOARD,
    protocol=Protocol.SEALED,
    grid=GridName.CPU,
    device=Device("cpu", "some CPU"),
    isolation=IsolationLevel.NAMESPACES,
    interpreted=False,
    seed=1,
    versions={},
    log="",
    cases_planned=2,
)
CASE = CaseResult(CaseKind.BENCHMARK, 0, {"size": 1}, Status.PASSED, samples=Samples((1000,) * 7))


def test_some_faults_lose_nothing_and_leave_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--count", "4", "--seed", "12", "--at-once", "2"],
        capture_output=True,
        text=True,
        timeout=540,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Problems: 0." in done.stdout
    assert "4 faults in " in done.stdout


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts" / "faults"))
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    return importlib.import_module("checks")


def trial(
    checks: Any, announced: dict[tuple[str, int], str], fault: str = "LOCKED", lines: list[str] | None = None
) -> Any:
    run = SimpleNamespace(user="trial-1", lines=lines or [], announced=announced)
    return SimpleNamespace(run=run, status=0, fault=getattr(importlib.import_module("trials").Fault, fault))


def recorded(outcome: EvaluationOutcome | None, *cases: CaseResult, header: EvaluationHeader = HEADER) -> None:
    with Store.open() as store:
        evaluation = store.begin_evaluation(store.add_submission("b", "trial-1", "k.py", "pass"), header)
        for case in cases:
            store.add_case(evaluation, case)
        if outcome is not None:
            store.finish_evaluation(evaluation, outcome)


def test_a_sound_record_has_no_problems(checks: Any) -> None:
    recorded(EvaluationOutcome(Status.PASSED, None), CASE, replace(CASE, index=1))
    assert checks.problems_of(trial(checks, {("benchmark", 0): "passed"}), True) == []
    assert checks.integrity() == []


def test_a_lost_case_is_seen(checks: Any) -> None:
    recorded(EvaluationOutcome(Status.PASSED, None), CASE, replace(CASE, index=1))
    (problem,) = checks.problems_of(trial(checks, {("benchmark", 5): "passed"}), True)
    assert "announced and not recorded" in problem


def test_a_case_recorded_otherwise_than_announced_is_seen(checks: Any) -> None:
    recorded(EvaluationOutcome(Status.FAILED, None), CASE, replace(CASE, index=1, status=Status.FAILED))
    (problem,) = checks.problems_of(trial(checks, {("benchmark", 1): "passed"}), True)
    assert "announced and not recorded" in problem


def test_a_passed_run_that_did_not_finish_is_seen(checks: Any) -> None:
    recorded(EvaluationOutcome(Status.PASSED, None), CASE)
    (problem,) = checks.problems_of(trial(checks, {}, "SUPERVISOR"), True)
    assert "shown as passed" in problem


def test_a_run_that_should_have_gone_on_is_seen(checks: Any) -> None:
    recorded(EvaluationOutcome(Status.INTERRUPTED, None), CASE)
    (problem,) = checks.problems_of(trial(checks, {}, "WORKER"), True)
    assert "should have gone on" in problem
    assert checks.problems_of(trial(checks, {}, "SUPERVISOR"), True) == []


def test_an_error_of_ours_is_seen(checks: Any) -> None:
    (problem,) = checks.problems_of(trial(checks, {}, lines=["harness: internal error: X"]), True)
    assert "error of ours" in problem


def test_a_damaged_store_is_seen(checks: Any, tmp_path: Path) -> None:
    recorded(EvaluationOutcome(Status.PASSED, None), CASE, replace(CASE, index=1))
    file = tmp_path / "harness.sqlite3"
    import sqlite3

    connection = sqlite3.connect(file)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("DELETE FROM submissions")
    connection.commit()
    connection.close()
    assert any("foreign keys" in problem for problem in checks.integrity())


def test_a_process_that_is_left_is_seen(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEFT_TIMEOUT_S", 0.2)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert any(each.startswith(f"{process.pid} ") for each in checks.left_processes())
    finally:
        process.kill()
        process.wait()

"""What an evaluation does when a process that is not the submission's dies under it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.boards.loader import load_board
from harness.errors import MachineError
from harness.evaluation.evaluate import Evaluation
from harness.evaluation.host import Host, server_environment
from harness.evaluation.plan import Plan
from harness.evaluation.record import CaseResult, EvaluationOutcome, IsolationLevel, Mode, Status
from harness.evaluation.session import Session, open_session
from harness.evaluation.workers import ForkServer, WorkerFault
from harness.sandbox import best_level

FAULTS = Path(__file__).parents[2] / "scripts" / "faults"
BOARD = load_board(FAULTS / "board")
KERNEL = (FAULTS / "kernel.py").read_text()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_a_twin_that_dies_is_replaced_and_no_case_suffers(tmp_path: Path) -> None:
    evaluation = Evaluation(Plan(BOARD, KERNEL, "kernel.py", Mode.BENCHMARK), tmp_path / "logs")
    cases: list[CaseResult] = []
    outcome: EvaluationOutcome | None = None
    for event in evaluation.events():
        if isinstance(event, CaseResult):
            cases.append(event)
            twin = evaluation._twins[0]
            os.kill(twin._session.worker.pid, signal.SIGKILL)
        if isinstance(event, EvaluationOutcome):
            outcome = event
    assert [case.status for case in cases] == [Status.PASSED] * 3
    assert outcome is not None
    assert outcome.status is Status.PASSED
    assert set(outcome.state) == {"before", "after"}


def test_a_fork_server_that_dies_is_told_as_the_machines_fault(tmp_path: Path) -> None:
    server = ForkServer(server_environment())
    server.wait_ready()
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    try:
        with (
            Host(BOARD, KERNEL, cuda=False, isolation=best_level(), logs=tmp_path, server=server) as host,
            pytest.raises(MachineError, match="starts workers is gone"),
        ):
            host.start("test")
    finally:
        server.close()


def test_a_worker_that_dies_unloaded_is_tried_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = 0
    start = Host.start

    def start_and_kill(self: Host, phase: str, *, with_submission: bool = True, sharers: int = 1):  # type: ignore[no-untyped-def]
        nonlocal deaths
        worker, folder = start(self, phase, with_submission=with_submission)
        if deaths < most:
            deaths += 1
            os.kill(worker.pid, signal.SIGKILL)
        return worker, folder

    monkeypatch.setattr(Host, "start", start_and_kill)
    with Host(BOARD, KERNEL, cuda=False, isolation=IsolationLevel.NONE, logs=tmp_path) as host:
        most = 1
        session = open_session(host, "test", cuda=False)
        assert isinstance(session, Session)
        assert session.alive
        session.close()
        deaths, most = 0, 2
        with pytest.raises(MachineError, match="before it had anything to do"):
            open_session(host, "test", cuda=False)
        deaths, most = 0, 1
        with pytest.raises(WorkerFault):
            Session(host, "test", cuda=False)

"""The noise between runs: the board's own baseline, evaluated as a submission is, again and again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness.boards.board import Board
from harness.boards.find import baseline_file, baseline_folders
from harness.errors import MachineError, RequestError
from harness.evaluation.evaluate import Evaluation, check_runs_here
from harness.evaluation.plan import Plan
from harness.evaluation.record import CaseResult, EvaluationOutcome, IsolationLevel, Mode, Protocol, Status
from harness.evaluation.workers import ForkServer
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.measure.scoring import evaluation_score


def baseline(board: Board) -> Path:
    """The file that a board measures others by. Raises RequestError where it names none."""
    where = str(board.folder / "harness.yml")
    if not board.settings.baselines:
        raise RequestError(
            f"board '{board.name}' names no baseline", where=where, hint="Add `baselines: [FILE]` to its harness.yml."
        )
    name = board.settings.baselines[0]
    file = baseline_file(board, name)
    if file is None:
        folders = " nor in ".join(map(str, baseline_folders(board)))
        raise RequestError(f"the baseline {name} of board '{board.name}' is neither in {folders}", where=where)
    return file


def baseline_plan(board: Board, isolation: IsolationLevel) -> Plan:
    """The baseline's evaluation, as `submit` would make it. Raises RequestError and MachineError."""
    file = baseline(board)
    plan = Plan(board, file.read_text(encoding="utf-8"), file.name, Mode.LEADERBOARD, isolation=isolation)
    check_runs_here(plan)
    return plan


def measure_noise(
    board: Board,
    runs: int,
    *,
    isolation: IsolationLevel,
    logs: Path,
    server: ForkServer,
    on_run: Callable[[int, float], None] = lambda number, score_ns: None,
) -> NoiseCalibration:
    """Scores of `runs` evaluations in leaderboard mode, each with fresh workers and fresh secret seeds.

    They share this process and its fork server, so what differs between two commands of a user but not here (where
    the supervisor's memory lies) is not in it. `on_run` hears of each score. Raises RequestError without a baseline,
    MachineError where the baseline does not pass or has no score here.
    """
    plan = baseline_plan(board, isolation)
    scores = []
    for number in range(runs):
        evaluation = Evaluation(plan, logs / f"{number:02d}", server)
        header = evaluation.header()
        if header.interpreted:
            raise MachineError(f"the baseline {plan.file_name} runs by an interpreter here, whose times mean nothing")
        scores.append(score_ns(evaluation, *run_through(evaluation)))
        on_run(number, scores[-1])
    key = NoiseKey(header.device.name, board.name, header.grid, Protocol.SEALED)
    return NoiseCalibration(key, header.device.kind, tuple(scores), datetime.now(UTC))


def run_through(evaluation: Evaluation) -> tuple[list[CaseResult], EvaluationOutcome]:
    """The cases and the outcome of an evaluation, run to its end without a word."""
    cases: list[CaseResult] = []
    outcome: EvaluationOutcome | None = None
    for event in evaluation.events():
        if isinstance(event, CaseResult):
            cases.append(event)
        if isinstance(event, EvaluationOutcome):
            outcome = event
    assert outcome is not None
    return cases, outcome


def score_ns(evaluation: Evaluation, cases: list[CaseResult], outcome: EvaluationOutcome) -> float:
    """The score of a baseline's run. Raises MachineError where it has none."""
    score = evaluation_score(evaluation.header(), outcome, cases)
    if outcome.status is Status.PASSED and score is not None:
        return score.value_ns
    why = outcome.reason.message if outcome.reason is not None else "a case took no longer than a call of nothing"
    raise MachineError(f"the board's baseline can't be measured here: {why}")

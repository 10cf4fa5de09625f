"""Fixtures of the popcorn tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from popcorn_boards import ROOT, Folder, Seen, watch

from harness.boards.loader import load_board
from harness.evaluation.plan import Plan
from harness.evaluation.record import IsolationLevel, Mode
from harness.popcorn import PopcornEvaluation


@pytest.fixture(scope="session")
def isolation() -> IsolationLevel:
    """The strongest level of this machine, so that the protocol is tested where it runs."""
    from harness.sandbox import best_level

    return best_level()


@pytest.fixture
def folder(tmp_path: Path, isolation: IsolationLevel) -> Folder:
    return Folder(tmp_path, isolation)


@pytest.fixture
def evaluate(tmp_path: Path, isolation: IsolationLevel) -> Callable[..., Seen]:
    """Evaluate a text on one of the shipped boards."""

    def run(board: str, submission: str, mode: Mode = Mode.TEST, **options: object) -> Seen:
        plan = Plan(
            load_board(ROOT / "leaderboards" / board),
            submission,
            "submission.py",
            mode,
            isolation=isolation,
            **options,  # type: ignore[arg-type]
        )
        return watch(PopcornEvaluation(plan, tmp_path / "logs"), tmp_path / "logs")

    return run

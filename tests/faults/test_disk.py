"""A disk that takes no more is told in one sentence, whatever part of the harness meets it."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from harness.boards.loader import load_board
from harness.cli.watching import watch
from harness.errors import ExitStatus, MachineError, disk_fault
from harness.evaluation.evaluate import Evaluation
from harness.evaluation.plan import Plan
from harness.evaluation.record import EvaluationHeader, IsolationLevel, Mode

FAULTS = Path(__file__).parents[2] / "scripts" / "faults"


def test_what_is_the_disks_fault() -> None:
    fault = disk_fault(OSError(errno.EROFS, "Read-only file system", "/a/b"))
    assert fault is not None
    assert str(fault).startswith("/a/b: the file system is read-only\n")
    assert fault.exit_status is ExitStatus.MACHINE_CANNOT
    assert disk_fault(FileNotFoundError(errno.ENOENT, "No such file")) is None
    assert disk_fault(ValueError("no")) is None


@pytest.mark.parametrize(("most_bytes", "words"), [(0, "no folder for temporary files"), (100, "files may not grow")])
def test_a_run_that_may_write_little_says_so(tmp_path: Path, most_bytes: int, words: str) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text((FAULTS / "kernel.py").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", str(kernel), "--leaderboard", str(FAULTS / "board")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HARNESS_HOME": str(tmp_path / "home"), "CUDA_VISIBLE_DEVICES": ""},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY)),
    )
    assert done.returncode == 3, done.stderr
    assert words in done.stderr
    assert "internal error" not in done.stderr


def test_a_store_that_fails_at_the_header_is_what_is_told(tmp_path: Path) -> None:
    """The outcome of an evaluation that was never begun in the store is not recorded there."""
    board = load_board(FAULTS / "board")
    plan = Plan(board, (FAULTS / "kernel.py").read_text(), "kernel.py", Mode.TEST, isolation=IsolationLevel.NONE)
    outcomes = []

    def refuse(header: EvaluationHeader) -> None:
        raise MachineError("the store is read-only")

    with pytest.raises(MachineError, match="read-only"):
        watch(Evaluation(plan, tmp_path), on_header=refuse, on_outcome=outcomes.append)
    assert outcomes == []

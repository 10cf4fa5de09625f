"""Boards whose eval main is a few lines of plain Python: they start in a tenth of a second, and misbehave on demand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.boards.loader import load_board
from harness.evaluation.plan import Plan
from harness.evaluation.record import (
    CaseResult,
    EvaluationHeader,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Progress,
)
from harness.popcorn import PopcornEvaluation

ROOT = Path(__file__).resolve().parents[2]

HONEST_MAIN = """
import os, sys, time
pipe = os.fdopen(int(os.environ["POPCORN_FD"]), "w")
mode, cases = sys.argv[1], open(sys.argv[2]).read().splitlines()
def say(line):
    print(line, file=pipe, flush=True)
kind = "test" if mode == "test" else "benchmark"
from submission import kernel
def figures(i):
    return {"runs": 3, "mean": 1500.25 + i, "std": 2.0, "err": 1.5, "best": 1400.0, "worst": 1600.5}
say(f"{kind}-count: {len(cases)}")
passed = True
for i, line in enumerate(cases):
    say(f"{kind}.{i}.spec: {line}")
    answer = kernel(mode, i)
    if answer != "right":
        say(f"{kind}.{i}.status: fail")
        say(f"{kind}.{i}.error: {answer}")
        passed = False
    elif mode == "test":
        say(f"test.{i}.status: pass")
    else:
        for key, value in figures(i).items():
            say(f"benchmark.{i}.{key}: {value}")
say("check: " + ("pass" if passed else "fail"))
sys.exit(0 if passed else 112)
"""
RIGHT = "def kernel(mode, index): return 'right'\n"


@dataclass
class Seen:
    """An evaluation, watched to its end."""

    header: EvaluationHeader
    progress: list[Progress]
    cases: list[CaseResult]
    outcome: EvaluationOutcome
    logs: Path

    def log(self, name: str) -> str:
        (path,) = self.logs.glob(f"*-{name}.log")
        return path.read_text(errors="replace")


def watch(evaluation: PopcornEvaluation, logs: Path) -> Seen:
    header, *rest = evaluation.events()
    *middle, outcome = rest
    assert isinstance(header, EvaluationHeader)
    assert isinstance(outcome, EvaluationOutcome)
    progress = [event for event in middle if isinstance(event, Progress)]
    return Seen(header, progress, [event for event in middle if isinstance(event, CaseResult)], outcome, logs)


class Folder:
    """A problem folder in the making, and how to evaluate a submission on it."""

    def __init__(self, path: Path, isolation: IsolationLevel) -> None:
        self.path, self._isolation = path / "board", isolation
        self.path.mkdir()
        self.task = {
            "lang": "py",
            "config": '{"main": "eval.py"}',
            "files": '[{"name": "submission.py", "source": "@SUBMISSION@"}, {"name": "eval.py", "source": "eval.py"}]',
            "tests": '[{"n": 1, "seed": 7}, {"n": 2, "seed": 8}]',
            "benchmarks": '[{"n": 10, "seed": 9}, {"n": 20, "seed": 10}]',
            "ranking_by": "geom",
            "test_timeout": "20",
            "benchmark_timeout": "20",
            "ranked_timeout": "20",
        }
        self.main = HONEST_MAIN

    def plan(self, submission: str = RIGHT, mode: Mode = Mode.TEST, **options: object) -> Plan:
        (self.path / "eval.py").write_text(self.main)
        (self.path / "task.yml").write_text("".join(f"{key}: {value}\n" for key, value in self.task.items()))
        options.setdefault("isolation", self._isolation)
        return Plan(load_board(self.path), submission, "submission.py", mode, **options)  # type: ignore[arg-type]

    def evaluate(self, submission: str = RIGHT, mode: Mode = Mode.TEST, **options: object) -> Seen:
        logs = self.path.parent / "logs"
        return watch(PopcornEvaluation(self.plan(submission, mode, **options), logs), logs)

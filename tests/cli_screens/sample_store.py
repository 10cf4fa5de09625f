"""A store with a known content, written through the real Store."""

from __future__ import annotations

from dataclasses import replace

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
    Reason,
    ReasonCode,
    Samples,
    Status,
    StopRule,
)
from harness.store import Store

SLOW = """#!POPCORN leaderboard cholesky
#!POPCORN gpu H200

import torch

BLOCK = 32


def factor(a):
    return torch.linalg.cholesky(a)


def solve(a, b):
    return torch.linalg.solve_triangular(a, b, upper=False)


def symmetric(a):
    return (a + a.mT) / 2


def custom_kernel(data):
    return factor(data)
"""
FAST = SLOW.replace("BLOCK = 32", "BLOCK = 64").replace("factor(data)", "factor(symmetric(data))")

HEADER = EvaluationHeader(
    mode=Mode.LEADERBOARD,
    protocol=Protocol.SEALED,
    grid=GridName.CPU,
    device=Device("cpu", "Intel(R) Xeon(R) Processor @ 2.10GHz", {"cores": 2}),
    isolation=IsolationLevel.BUBBLEWRAP,
    interpreted=False,
    seed=4_611_686_018_427_387_905,
    versions={"harness": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.9"},
    log="/var/tmp/harness/logs/17",
    cases_planned=5,
)
PASSED = EvaluationOutcome(Status.PASSED, None, None, {"start": 1.25, "tests": 2.5, "benchmarks": 4.0})
SPECS = (
    {"batch": 256, "n": 32, "cond": 2, "seed": 41032},
    {"batch": 64, "n": 64, "cond": 2, "seed": 41064},
    {"batch": 16, "n": 128, "cond": 2, "seed": 41128},
)


def samples(median_us: float) -> Samples:
    """Fifteen calls spread by ± 1.4 % about the median, over a no-op call of 2 µs."""
    walls = [round(1000 * (2 + median_us * (1 + step / 500))) for step in range(-7, 8)]
    return Samples(tuple(walls), (2000,) * 15)


def test_case(index: int, **changes: object) -> CaseResult:
    case = CaseResult(
        CaseKind.TEST,
        index,
        {"batch": 16, "n": 32, "cond": 2, "seed": 53124},
        Status.PASSED,
        notes=("residual 0.31 of 20",),
        seconds=0.2,
    )
    return replace(case, **changes)  # type: ignore[arg-type]


def benchmark_case(index: int, median_us: float) -> CaseResult:
    return CaseResult(
        CaseKind.BENCHMARK,
        index,
        SPECS[index],
        Status.PASSED,
        samples=samples(median_us),
        stop_rule=StopRule.PRECISE,
        seconds=1.0,
    )


def passed(store: Store, user: str, source: str, medians_us: tuple[float, ...], **header: object) -> int:
    submission = store.add_submission("cholesky", user, "blocked.py", source, ["H200"])
    evaluation = store.begin_evaluation(submission, replace(HEADER, **header))  # type: ignore[arg-type]
    for index in range(2):
        store.add_case(evaluation, test_case(index))
    for index, median_us in enumerate(medians_us):
        store.add_case(evaluation, benchmark_case(index, median_us))
    store.finish_evaluation(evaluation, PASSED)
    return submission


def fill(store: Store) -> None:
    """Ids: 1 and 2 ada's, slow and fast; 3 bob's, as fast as ada's; 4 ada's failed test; 5 ada's on a GPU."""
    passed(store, "ada", SLOW, (100.0, 200.0, 400.0))
    passed(store, "ada", FAST, (50.0, 200.5, 480.0))
    passed(store, "bob", FAST + "# mine\n", (51.0, 200.0, 480.0))
    submission = store.add_submission("cholesky", "ada", "[broken].py", "def custom_kernel(data): return None\n")
    evaluation = store.begin_evaluation(submission, replace(HEADER, mode=Mode.TEST, cases_planned=4))
    wrong = Reason(ReasonCode.WRONG_ANSWER, "3 of 1024 wrong, first at [0, 1, 2]: expected 1.5, got \x1b[31m0.0")
    traceback = 'Traceback (most recent call last):\n  File "[broken].py", line 1\nValueError: [bold]no[/bold]\n'
    store.add_case(evaluation, test_case(0))
    store.add_case(evaluation, test_case(1, status=Status.FAILED, reason=wrong))
    raised = Reason(ReasonCode.EXCEPTION, "ValueError: [bold]no[/bold]")
    store.add_case(evaluation, test_case(2, status=Status.FAILED, reason=raised, traceback=traceback))
    store.finish_evaluation(evaluation, EvaluationOutcome(Status.FAILED, wrong))
    passed(
        store,
        "ada",
        FAST,
        (5.0, 20.0, 40.0),
        grid=GridName.FULL,
        device=Device("cuda", "NVIDIA H200", {"sms": 132}),
    )

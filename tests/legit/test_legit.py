"""Honest submissions that do unusual things all pass, with a figure like any other's."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest
from trial import CUDA, Trial, board_of, docstring_of, read, tiny_board

from harness.boards.board import Board
from harness.boards.find import find_board
from harness.evaluation.record import CaseKind, ReasonCode
from harness.evaluation.twin import Twin

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"
CALL_TIMEOUT_S = 200
ATTEMPTS = 5
"""On a machine that is busy with something else a short call may seem to take no longer than nothing."""
SLOW = ("cpp_extension", "torch_compile", "gpu_load_inline")
THOROUGH = ("torch_compile",)
"""40 s and more, in the C++ compiler nearly all of it."""


def names() -> list[str]:
    return sorted(path.stem for path in SUBMISSIONS.glob("*.py"))


def marked(name: str) -> object:
    marks = [pytest.mark.slow] if name in SLOW else []
    marks += [pytest.mark.thorough] if name in THOROUGH else []
    if name.startswith("gpu_"):
        marks += [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]
    else:
        marks += [pytest.mark.skipif(CUDA, reason="written for the CPU")]
    return pytest.param(name, marks=marks)


def board_for(source: str) -> Board:
    own = HERE / "boards" / board_of(source)
    return find_board(str(own)) if own.is_dir() else tiny_board(board_of(source))


@pytest.mark.parametrize("name", [marked(name) for name in names()])
def test_an_honest_submission_passes(name: str, trial: Trial) -> None:
    source = read(SUBMISSIONS, name)
    passes(trial, source, board_for(source))


def passes(trial: Trial, source: str, board: Board | None = None) -> None:
    for _ in range(ATTEMPTS):
        outcome = trial(source, board=board, call_timeout_s=CALL_TIMEOUT_S)
        if outcome.status != "passed" or min(outcome.figures_us) > 0:
            break
    assert outcome.status == "passed", outcome.told()
    assert all(case.status == "passed" for case in outcome.cases), outcome.told()
    assert all(0 < figure < 1e5 for figure in outcome.figures_us), outcome.told()
    assert all(len(case.samples.wall_ns) >= 7 for case in outcome.cases if case.kind is CaseKind.BENCHMARK)


def test_a_file_of_300_kB_passes(trial: Trial) -> None:
    table = ",\n".join(f"    {i}: 'a row of a table that some generator wrote, number {i:06d}'" for i in range(5000))
    source = f"#!POPCORN leaderboard vectoradd\nTABLE = {{\n{table}\n}}\n\ndef custom_kernel(data):\n    a, b = data\n"
    source += "    assert len(TABLE) == 5000\n    return a + b\n"
    assert len(source) > 300_000
    passes(trial, source)


def test_there_are_enough_of_them_and_each_says_what_it_does() -> None:
    assert len([name for name in names() if not name.startswith("gpu_")]) >= 20
    for name in names():
        assert len(docstring_of(read(SUBMISSIONS, name)).split()) >= 6, name


def test_a_score_that_is_not_told_from_nothing_does_not_rank(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = cycle((second * 10**9, 0) for second in (0, 1, 0, 1, 0, 1, 0))  # the median is nothing, not so the interval
    monkeypatch.setattr(Twin, "costs_ns", lambda self, form: next(costs))
    honest = read(HERE.parent / "exploits" / "submissions", "honest_vectoradd")
    outcome = trial(honest)
    assert outcome.status == "passed", outcome.told()
    assert outcome.rank_reason is not None
    assert outcome.rank_reason.code is ReasonCode.TOO_NOISY

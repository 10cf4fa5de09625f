"""The shipped boards by their own eval main, on this machine's processor."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from popcorn_boards import ROOT, Seen

from harness.evaluation.record import CaseKind, Mode, ReasonCode, Status
from harness.measure.statistics import case_figure

CHOLESKY = (ROOT / "submissions" / "cholesky" / "cholesky_torch.py").read_text()
VECTORADD = (ROOT / "submissions" / "vectoradd" / "vectoradd_torch.py").read_text()
RIGHT = "import os\ndef custom_kernel(data):\n    {}\n    return data[0] + data[1]\n"
WRONG = "import torch\ndef custom_kernel(data): return torch.zeros_like(data[0])\n"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))


def test_cholesky_right(evaluate: Callable[..., Seen]) -> None:
    seen = evaluate("cholesky", CHOLESKY, only=(0, 1))
    assert [case.status for case in seen.cases] == [Status.PASSED] * 2
    assert "residual" in seen.cases[0].notes[0]


def test_vectoradd_leaderboard(evaluate: Callable[..., Seen]) -> None:
    seen = evaluate("vectoradd", VECTORADD, Mode.LEADERBOARD, only=(0,))
    assert seen.outcome.status is Status.PASSED
    assert [case.kind for case in seen.cases] == [CaseKind.TEST, CaseKind.BENCHMARK]
    figure = case_figure(seen.cases[1].samples)
    assert figure is not None
    assert 1e3 < figure.value_ns < 1e9  # 65536 floats: more than a microsecond, less than a second
    assert seen.outcome.rank_reason is not None


def test_wrong_and_raising(evaluate: Callable[..., Seen]) -> None:
    raising = RIGHT.format("if data[0].numel() > 200: raise ValueError('too large')")
    first = evaluate("vectoradd", WRONG, only=(0, 1, 2))
    assert [case.status for case in first.cases] == [Status.FAILED] * 3
    assert first.cases[0].reason is not None
    assert first.cases[0].reason.code is ReasonCode.WRONG_ANSWER
    second = evaluate("vectoradd", raising, only=(0, 1, 2))
    assert [case.status for case in second.cases] == [Status.PASSED, Status.PASSED, Status.FAILED]
    case = second.cases[2]
    assert case.reason is not None
    assert case.reason.code is ReasonCode.EXCEPTION
    assert "too large" in case.reason.message
    assert 'submission.py", line 3, in custom_kernel' in case.traceback


def test_a_dead_child_is_the_cases_and_the_next_case_runs(evaluate: Callable[..., Seen]) -> None:
    seen = evaluate("vectoradd", RIGHT.format("if data[0].numel() == 128: os._exit(0)"), only=(0, 1, 2))
    assert [case.status for case in seen.cases] == [Status.PASSED, Status.FAILED, Status.PASSED]
    assert seen.cases[1].reason is not None
    assert "ended by itself" in seen.cases[1].reason.message


@pytest.mark.parametrize(
    ("source", "code"),
    [("value = 1\n", ReasonCode.NO_ENTRY), ("import no_such_module\n", ReasonCode.IMPORT_FAILED)],
)
def test_what_cannot_be_imported(evaluate: Callable[..., Seen], source: str, code: ReasonCode) -> None:
    seen = evaluate("vectoradd", source, only=(0,))
    assert seen.cases[0].reason is not None
    assert seen.cases[0].reason.code is code


def test_a_triton_submission_runs_by_the_interpreter_without_a_gpu(evaluate: Callable[..., Seen]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    source = (ROOT / "submissions" / "vectoradd" / "vectoradd_triton.py").read_text()
    seen = evaluate("vectoradd", source, only=(0,))
    assert seen.header.interpreted is not torch.cuda.is_available()
    assert seen.outcome.status is Status.PASSED


@pytest.mark.gpu
def test_on_a_gpu(evaluate: Callable[..., Seen]) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    seen = evaluate("vectoradd", VECTORADD, Mode.LEADERBOARD)
    assert seen.outcome.status is Status.PASSED
    figures = [case_figure(case.samples) for case in seen.cases if case.kind is CaseKind.BENCHMARK]
    assert all(figure is not None and figure.value_ns > 1e3 for figure in figures)

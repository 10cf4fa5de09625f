"""`lang: cu` boards: nvcc's command line, compile errors, and the run, where there is a device for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from popcorn_boards import ROOT, Seen, watch

from harness.boards.loader import load_board
from harness.errors import MachineError, RequestError
from harness.evaluation.plan import Plan
from harness.evaluation.record import IsolationLevel, Mode, ReasonCode, Status
from harness.popcorn import PopcornEvaluation
from harness.popcorn.compiling import architecture_of, compile_arguments, first_error

BOARD = ROOT / "tests" / "popcorn" / "cuda_board"
RIGHT = """//!POPCORN leaderboard cuda_board
#include "task.h"
__global__ void add(const float* a, const float* b, float* out, int size) {
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < size) out[i] = a[i] + b[i];
}
void custom_kernel(const float* a, const float* b, float* out, int size) {
    add<<<(size + BLOCK - 1) / BLOCK, BLOCK>>>(a, b, out, size);
}
"""
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def has_device() -> bool:
    import torch

    return torch.cuda.is_available()


def evaluation(source: str, logs: Path, isolation: IsolationLevel, mode: Mode = Mode.TEST) -> PopcornEvaluation:
    return PopcornEvaluation(Plan(load_board(BOARD), source, "add.cu", mode, isolation=isolation), logs)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    arguments = compile_arguments(load_board(BOARD), tmp_path, "90a")
    assert arguments[0] == "--std=c++20"
    assert arguments[-10:] == [
        "-Xptxas=--warn-on-spills",
        "-Iinclude",
        "-DBLOCK=256",
        "-DPLAIN",
        "-lineinfo",
        "eval.cu",
        "submission.cu",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-o",
        "eval.out",
    ]


def test_an_include_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="include folder 'include'") as caught:
        compile_arguments(load_board(BOARD), tmp_path, "90a")
    assert "config.include_dirs" in caught.value.where


def test_architectures_as_the_service_names_them() -> None:
    assert [architecture_of(capability) for capability in ("7.5", "8.0", "8.9", "9.0", "10.0", "12.0")] == [
        "75",
        "80",
        "89",
        "90a",
        "100",
        "120",
    ]


def test_first_error_skips_what_is_no_error() -> None:
    output = (
        'ptxas info : 0 bytes gmem\nsubmission.cu(5): error: identifier "c" is undefined\n  x = c;\n1 error detected'
    )
    assert first_error(output) == 'submission.cu(5): error: identifier "c" is undefined'
    assert first_error("ptxas info : 0 bytes gmem") == ""


@needs_nvcc
def test_a_compile_error_names_file_and_line(tmp_path: Path, isolation: IsolationLevel) -> None:
    seen: Seen = watch(evaluation(RIGHT.replace("+ b[i]", "+ c[i]"), tmp_path, isolation, Mode.LEADERBOARD), tmp_path)
    assert seen.outcome.status is Status.FAILED
    assert seen.outcome.reason is not None
    assert seen.outcome.reason.code is ReasonCode.COMPILE_FAILED
    assert seen.outcome.reason.message == 'submission.cu(5): error: identifier "c" is undefined'
    (case,) = seen.cases
    assert case.traceback.startswith("$ nvcc --std=c++20")
    assert "out[i] = a[i] + c[i];" in case.traceback


@needs_nvcc
def test_without_a_device_it_compiles_and_says_that_it_can_not_run(tmp_path: Path, isolation: IsolationLevel) -> None:
    if has_device():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(MachineError, match=r"it compiles \(for sm_90a\), .* no CUDA device"):
        watch(evaluation(RIGHT, tmp_path, isolation), tmp_path)


def test_without_nvcc(tmp_path: Path, isolation: IsolationLevel, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = evaluation(RIGHT, tmp_path, isolation)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="nvcc is not on PATH"):
        watch(subject, tmp_path)


@pytest.mark.gpu
@needs_nvcc
def test_on_a_gpu(tmp_path: Path, isolation: IsolationLevel) -> None:
    if not has_device():
        pytest.skip("needs a CUDA device")
    right = watch(evaluation(RIGHT, tmp_path / "right", isolation, Mode.LEADERBOARD), tmp_path / "right")
    assert [case.status for case in right.cases] == [Status.PASSED] * 3
    wrong = watch(evaluation(RIGHT.replace("a[i] + b", "a[i] - b"), tmp_path / "wrong", isolation), tmp_path / "wrong")
    assert [case.status for case in wrong.cases] == [Status.FAILED] * 2
    assert wrong.cases[0].reason is not None
    assert wrong.cases[0].reason.message == "wrong sum"
    astray = RIGHT.replace("out[i] = ", "out[i + (1ll << 40)] = ")
    crashed = watch(evaluation(astray, tmp_path / "astray", isolation), tmp_path / "astray")
    assert crashed.cases[0].reason is not None
    assert crashed.cases[0].reason.code is ReasonCode.CUDA_ERROR

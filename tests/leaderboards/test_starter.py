"""The starter boards, vectoradd and softmax: checks by hand-checked numbers, what they refuse, their submissions."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from boards_on_disk import (
    PUBLIC_KEYS,
    ROOT,
    board_module,
    cpu_cases,
    described_names,
    harness_yml,
    submission,
    task_yml,
    wrong_answers,
)

BOARDS = ["vectoradd", "softmax"]
REFERENCES = {board: board_module(board, "reference.py") for board in BOARDS}
CASES = [(board, spec) for board in BOARDS for spec in cpu_cases(board)]
IDS = [f"{board}-{'-'.join(str(value) for value in spec.values())}" for board, spec in CASES]


@pytest.mark.parametrize("board", BOARDS)
def test_task_yml_keeps_to_the_public_keys(board: str) -> None:
    assert set(task_yml(board)) <= PUBLIC_KEYS


def test_descriptions_name_what_generate_input_returns() -> None:
    assert described_names("vectoradd") == ["a", "b"]
    assert len(REFERENCES["vectoradd"].generate_input(size=4, seed=1)) == 2
    assert described_names("softmax") == ["x"]
    assert isinstance(REFERENCES["softmax"].generate_input(rows=2, columns=3, seed=1), torch.Tensor)


@pytest.mark.parametrize(("board", "spec"), CASES, ids=IDS)
def test_reference_passes_and_wrong_answers_fail(board: str, spec: dict[str, Any]) -> None:
    reference, lint = REFERENCES[board], board_module(board, "lint.py")
    data = reference.generate_input(**spec)
    output = reference.ref_kernel(data)
    assert reference.check_implementation(data, output)[0]
    wrong = {name: getattr(lint, name)(data, output) for name in wrong_answers(board)}
    wrong |= {name: torch.full_like(output, value) for name, value in (("zeros", 0.0), ("ones", 1.0))}
    wrong["nan"] = torch.full_like(output, float("nan"))
    wrong["input"] = data[0] if isinstance(data, tuple) else data
    for name, answer in wrong.items():
        passed, message = reference.check_implementation(data, answer)
        assert not passed, name
        assert "elements differ; [" in message


@pytest.mark.parametrize("board", BOARDS)
def test_wrong_objects_are_named(board: str) -> None:
    reference = REFERENCES[board]
    data = reference.generate_input(**cpu_cases(board)[0])
    output = reference.ref_kernel(data)
    assert reference.check_implementation(data, None) == (False, "output is a NoneType, expected a torch.Tensor")
    assert "has dtype torch.float64, expected torch.float32" in reference.check_implementation(data, output.double())[1]
    assert "has shape torch.Size([2" in reference.check_implementation(data, output[:2])[1]


def test_vectoradd_by_hand() -> None:
    data = (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 2.0**-30]))
    assert REFERENCES["vectoradd"].check_implementation(data, torch.tensor([11.0, 22.0, 3.0])) == (True, "")
    passed, message = REFERENCES["vectoradd"].check_implementation(data, torch.tensor([11.0, 22.5, 3.0]))
    assert not passed
    assert message == "1 of 3 elements differ; [1] is 22.5, expected 22"


def test_softmax_by_hand() -> None:
    """exp of (0, ln 3) over their sum is (1/4, 3/4), wherever the row is offset to."""
    data = torch.tensor([[0.0, 1.0986123], [150.0, 151.0986123]])
    reference = REFERENCES["softmax"]
    right = torch.tensor([[0.25, 0.75], [0.25, 0.75]])
    assert reference.check_implementation(data, right)[0]
    passed, message = reference.check_implementation(data, right + torch.tensor([[0.0, 0.0], [0.0, 0.001]]))
    assert not passed
    assert message.startswith("1 of 4 elements differ; [1, 1] is 0.751, expected 0.75")


@pytest.mark.parametrize(("board", "spec"), CASES, ids=IDS)
def test_torch_baselines_and_templates_pass(board: str, spec: dict[str, Any]) -> None:
    (baseline,) = harness_yml(board)["baselines"]
    for kernel in (submission(board, baseline), board_module(board, "template.py")):
        data = REFERENCES[board].generate_input(**spec)
        passed, message = REFERENCES[board].check_implementation(data, kernel.custom_kernel(data))
        assert passed, message


INTERPRETED = """
import sys
sys.path.insert(0, "tests/leaderboards")
from boards_on_disk import board_module, cpu_cases, submission
for board in ("vectoradd", "softmax"):
    reference = board_module(board, "reference.py")
    for kernel in (submission(board, f"{board}_triton.py"), board_module(board, "template_triton.py")):
        for spec in cpu_cases(board):
            data = reference.generate_input(**spec)
            print(kernel.__name__, spec, *reference.check_implementation(data, kernel.custom_kernel(data)))
"""


def test_triton_submissions_pass_under_the_interpreter() -> None:
    """In a process of its own: Triton decides on interpretation when it is imported."""
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 20
    assert all("} True" in line for line in lines), done.stdout

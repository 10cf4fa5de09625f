"""The files of a small board, "add two matrices", in the public format."""

from __future__ import annotations

from typing import Any

REFERENCE = """
import torch
from task import input_t, output_t
from utils import close


def generate_input(n: int, seed: int = 0) -> input_t:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, n, generator=generator), torch.randn(n, n, generator=generator)


def ref_kernel(data: input_t) -> output_t:
    return data[0] + data[1]


def check_implementation(data, output):
    return close(output, ref_kernel(data))
"""
TASK = "import torch\n\ninput_t = tuple[torch.Tensor, torch.Tensor]\noutput_t = torch.Tensor\n"
UTILS = """
import torch


def close(got, wanted):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False, f"got {tuple(got.shape)} {got.dtype}"
    ok = torch.allclose(got, wanted, rtol=1e-5, atol=1e-6)
    return ok, "" if ok else "values differ"
"""
TASK_YML: dict[str, Any] = {
    "files": [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "task.py", "source": "task.py"},
        {"name": "utils.py", "source": "../utils.py"},
        {"name": "reference.py", "source": "reference.py"},
        {"name": "eval.py", "source": "../eval.py"},
    ],
    "lang": "py",
    "description": "Add two square matrices.\n\n`data = (a, b)`, both `[n, n]` float32.\n",
    "config": {"main": "eval.py"},
    "templates": {"Python": "template.py"},
    "tests": [{"n": 4, "seed": 1}, {"n": 5, "seed": 2}],
    "benchmarks": [{"n": 8, "seed": 3}],
    "ranking_by": "geom",
}
TEMPLATE = "#!POPCORN leaderboard add\n\nfrom task import input_t, output_t\n\n\ndef custom_kernel(data):\n    ...\n"

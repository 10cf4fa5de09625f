"""Problem folders in the public format, written in a few lines of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

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

MakeBoard = Callable[..., Path]


@pytest.fixture
def make_board(tmp_path: Path) -> MakeBoard:
    """`make_board("add", reference=…, harness={…}, drop=[…], tests=[…])` writes a folder and returns it.

    Keywords other than these replace keys of `task.yml`; `files_text` adds files to the folder.
    """

    def make(
        name: str = "add",
        *,
        reference: str = REFERENCE,
        harness: dict[str, Any] | None = None,
        drop: tuple[str, ...] = (),
        files_text: dict[str, str] | None = None,
        **task: Any,
    ) -> Path:
        folder = tmp_path / "problems" / name
        folder.mkdir(parents=True)
        content = {key: value for key, value in {**TASK_YML, **task}.items() if key not in drop}
        (folder / "task.yml").write_text(yaml.safe_dump(content, sort_keys=False))
        (folder / "task.py").write_text(TASK)
        (folder / "reference.py").write_text(reference)
        (folder / "template.py").write_text(TEMPLATE)
        (folder.parent / "utils.py").write_text(UTILS)
        (folder.parent / "eval.py").write_text("raise SystemExit('not run here')\n")
        if harness is not None:
            (folder / "harness.yml").write_text(yaml.safe_dump(harness))
        for file_name, text in (files_text or {}).items():
            (folder / file_name).write_text(text)
        return folder

    return make

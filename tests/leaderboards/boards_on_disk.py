"""What the tests of the boards share: a board's files and its modules, read as they lie in the tree."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


def module(path: Path, *, beside: Path) -> ModuleType:
    """Execute `path` with the files of the folder `beside` importable by their bare names, as a worker has them."""
    names = ("task", "reference", "lint")
    hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(beside))
    try:
        spec = importlib.util.spec_from_file_location(f"{beside.name}_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        # Triton reads a kernel's source and globals through its module.
        sys.modules[spec.name] = loaded
        spec.loader.exec_module(loaded)
        return loaded
    finally:
        sys.path.remove(str(beside))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


def board_module(board: str, file_name: str) -> ModuleType:
    """`reference.py` or `lint.py` of a board, or one of its templates."""
    folder = ROOT / "leaderboards" / board
    return module(folder / file_name, beside=folder)


def submission(board: str, file_name: str) -> ModuleType:
    """One of the submissions that come with a board."""
    return module(ROOT / "submissions" / board / file_name, beside=ROOT / "leaderboards" / board)


def task_yml(board: str) -> dict[str, Any]:
    """The board's `task.yml`."""
    return yaml.safe_load((ROOT / "leaderboards" / board / "task.yml").read_text())


def harness_yml(board: str) -> dict[str, Any]:
    """The board's `harness.yml`."""
    return yaml.safe_load((ROOT / "leaderboards" / board / "harness.yml").read_text())


def cpu_cases(board: str) -> list[dict[str, Any]]:
    """Every case of the CPU grid: tests, then benchmarks."""
    grid = harness_yml(board)["grids"]["cpu"]
    return [*grid["tests"], *grid["benchmarks"]]


def wrong_answers(board: str) -> list[str]:
    """The names that `harness.yml` lists for lint."""
    return list(harness_yml(board)["lint"]["wrong_answers"])


PUBLIC_KEYS = {
    "lang", "files", "config", "libraries", "tests", "test_timeout", "benchmarks", "benchmark_timeout",
    "ranked_timeout", "ranking_by", "seed", "multi_gpu", "description", "gpus", "templates",
}  # fmt: skip


def described_names(board: str) -> list[str]:
    """The names in the description's line `data = …`: one for a bare value, several for a tuple."""
    lines = [line.strip() for line in task_yml(board)["description"].splitlines()]
    (line,) = [line for line in lines if line.startswith("data = ")]
    return [name.strip() for name in line.removeprefix("data = ").strip("()").split(",")]

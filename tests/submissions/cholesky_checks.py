"""What the tests of the cholesky board's kernels ask of an answer, of a file, and of what compile mode makes of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from click.testing import Result
from emulated import ROOT

FOLDER = ROOT / "submissions" / "cholesky"


def residual(a: torch.Tensor, factor: torch.Tensor) -> float:
    """‖L·Lᵀ − A‖₁ / (n·ε·‖A‖₁), in float64; the largest of the batch."""
    a, factor = a.double(), factor.double()
    norm = torch.linalg.matrix_norm(factor @ factor.mT - a, 1) / torch.linalg.matrix_norm(a, 1)
    return float(norm.max()) / (a.shape[-1] * torch.finfo(torch.float32).eps)


def assert_right(
    module: ModuleType, reference: ModuleType, batch: int, n: int, case: str = "dense", cond: int = 2
) -> tuple[torch.Tensor, torch.Tensor]:
    """The board's check, an input left as it was, and zeros above the diagonal; the input and its factor."""
    data = reference.generate_input(batch, n, cond, 1000 + n, case)
    kept = data.clone()
    factor = module.custom_kernel(data)
    right, message = reference.check_implementation(data, factor)
    assert right, message
    assert torch.equal(data, kept)
    assert not factor.triu(1).any()
    return data, factor


def views_of(data: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same matrices as the board never gives them: strided, or at an address of four bytes only."""
    batch, n, _ = data.shape
    views = {
        "transposed": data.new_zeros(batch, n, n).mT,
        "corners": data.new_zeros(batch, n + 3, n + 5)[:, :n, :n],
        "every other": data.new_zeros(2 * batch, n, n)[::2],
        "odd address": data.new_zeros(data.numel() + 1)[1:].view_as(data),
    }
    for view in views.values():
        view.copy_(data)
    return views


def assert_right_of_any_view(module: ModuleType, reference: ModuleType, batch: int, n: int) -> None:
    data = reference.generate_input(batch, n, 2, 1000 + n, "dense")
    for name, view in views_of(data).items():
        factor = module.custom_kernel(view)
        right, message = reference.check_implementation(data, factor)
        assert right, f"{name}: {message}"
        assert torch.equal(view, data), name


def assert_not_finite_where_not_positive_definite(module: ModuleType, n: int) -> None:
    data = torch.eye(n).repeat(2, 1, 1)
    data[1, n // 2, n // 2] = -1
    factor = module.custom_kernel(data)
    assert torch.equal(factor[0], torch.eye(n))
    assert not factor[1].isfinite().all()


def functions_of(file: str) -> dict[str, str]:
    """Source of every function and class of a submission."""
    nodes = ast.parse((FOLDER / file).read_text()).body
    return {node.name: ast.unparse(node) for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def compile_without_spills(
    harness_compile: Callable[..., Result], file: Path, arch: str, ptx: Path, sass: Path
) -> list[dict[str, Any]]:
    """The kernels of a case of several blocks as compile mode tells of them; their listings are in `ptx` and `sass`."""
    done = harness_compile(file, "--arch", arch, "--case", "4", "--json", "--ptx", ptx, "--sass", sass)
    assert done.return_value == 0, done.stdout[-2000:] + done.stderr[-2000:] + repr(done.exception)
    (compilation,) = json.loads(done.stdout)["compilations"]
    for kernel in compilation["kernels"]:
        assert kernel["resources"]["spill_store_bytes"] == 0
    kernels: list[dict[str, Any]] = compilation["kernels"]
    return kernels

"""The Gluon kernels for Blackwell of the cholesky board, as far as a machine without such a card can tell.

There is no interpreter for Gluon. The host program runs as it is, on the CPU, with a stand-in in torch for each kernel:
the same blocks, tile map, slots of the panel and 3×TF32 products, so that plan and numerics are proved. What the
kernels themselves become is looked up in their SASS.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from emulated import ROOT, load_submission

pytest.importorskip("triton.experimental.gluon", reason="Triton with Gluon is not installed")

FILES = sorted(path.name for path in (ROOT / "submissions" / "cholesky").glob("cholesky_gluon_tcgen05_*.py"))
MULTIPROCESSORS = 5  # of the stand-in's device: few, so that every one has several tiles


def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """hi and lo in TF32: the nearest with 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 rounds."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        bits = (x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
        return torch.where(x.isfinite(), bits.view(torch.float32), x)

    hi = rounded(x)
    return hi, rounded(x - hi)


def product(a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """A·Bᵀ of hi and lo parts, without lo·lo."""
    return (a[1] @ b[0].mT + a[0] @ b[1].mT) + a[0] @ b[0].mT


def eliminate(tile: torch.Tensor, first: int) -> torch.Tensor:
    """[batch, rows, w]: its columns factored, with pivots in rows first, ..., first + w − 1."""
    tile = tile.clone()
    for k in range(tile.shape[-1]):
        across = tile[:, first : first + tile.shape[-1], k].clone()
        root = across[:, k, None].rsqrt()
        column = tile[:, :, k] * root
        tile[:, :, k + 1 :] -= (column * root)[:, :, None] * across[:, None, k + 1 :]
        tile[:, :, k] = column
    return tile


class Kernel:
    """What stands in for a kernel: called with the grid's size first, and launched as the kernel is."""

    def __init__(self, body: Callable[..., None]) -> None:
        self.body = body

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *arguments, **options: self.body(grid[0], *arguments, **options)


def stand_ins(module: ModuleType) -> dict[str, Any]:
    block = module.BLOCK.value
    width = module.WIDTH.value

    def small_kernel(grid, source, factor, n, WIDE, num_warps):
        assert grid == len(source)
        assert n <= WIDE == 32 * num_warps
        tile = torch.eye(WIDE).repeat(grid, 1, 1)
        tile[:, :n, :n] = source
        factor.copy_(eliminate(tile, 0).tril()[:, :n, :n])

    def factor_kernel(grid, source, factor, inverse, size, column, ROWS, num_warps):
        assert grid == len(source)
        assert num_warps == ROWS // 32
        at = slice(column * block, (column + 1) * block)
        tile = torch.cat((source[:, at, at], torch.eye(block).repeat(grid, 1, 1)), dim=1)[:, :ROWS]
        totals = torch.zeros_like(tile)
        for first in range(0, block, width):
            part = slice(first, first + width)
            made = eliminate(tile[:, :, part] - totals[:, :, part], first)
            made[:, :block] = torch.where(torch.arange(block)[:, None] >= torch.arange(block)[part], made[:, :block], 0)
            tile[:, :, part] = made
            hi, lo = parts(made)
            totals += product((hi, lo), (hi[:, :block], lo[:, :block]))
        factor[:, at, at] = tile[:, :block]
        if block != ROWS:
            inverse[:, 0], inverse[:, 1] = parts(tile[:, block:].mT)

    def solve_kernel(grid, source, inverse, factor, hi, lo, pointer, size, column, slot, num_warps):
        solved = size // block - column - 1
        first = column * block
        for program in range(grid):
            matrix, below = program // solved, column + 1 + program % solved
            row = matrix * size + below * block
            right = inverse.base[matrix * 2 * block :][: 2 * block].split(block)
            x = product(parts(source.base[row : row + block, first : first + block]), right)
            factor.base[row : row + block, first : first + block] = x
            for panel, part in zip((hi, lo), parts(x), strict=True):
                panel.base[row : row + block, slot * block : (slot + 1) * block] = part
            pointer[matrix, first : first + block, below * block : (below + 1) * block] = 0

    def update_tile(panel, source, factor, size, start, i, j, matrix, slot, steps, span=1):
        """Both `span` blocks of the right factor, as far as they are not above the diagonal, as the kernels do."""
        row = matrix * size + (start + i) * block
        inner = slice(slot * block, slot * block + steps * module.DEPTH.value)
        left = [part.base[row : row + block, inner] for part in panel]
        for k in range(j, min(j + span, i + 1)):
            right = [part.base[matrix * size + (start + k) * block :][:block, inner] for part in panel]
            at = (slice(row, row + block), slice((start + k) * block, (start + k + 1) * block))
            factor.base[at] = source.base[at] - product(tuple(left), tuple(right))

    def update_kernel(grid, hi, lo, source, factor, size, start, columns, slot, steps, *rest, num_warps, **options):
        rows = size // block - start
        span = options.get("SPAN", 1)
        tiles, total = (rest[0], grid) if len(rest) == 1 else rest
        assert grid == min(total, MULTIPROCESSORS) or len(rest) == 1
        for t in range(total):
            i, j = module.tile_of.fn(t % tiles, rows, -(-columns // span), span)
            update_tile((hi, lo), source, factor, size, start, i, span * j, t // tiles, slot, steps, span)

    names = ("small_kernel", "factor_kernel", "solve_kernel", "update_kernel")
    return {name: Kernel(body) for name, body in locals().items() if name in names}


@pytest.fixture(params=FILES)
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A submission whose kernels are stand-ins."""
    module = load_submission("cholesky", request.param)
    for name, kernel in stand_ins(module).items():
        monkeypatch.setattr(module, name, kernel)
    if hasattr(module, "multiprocessors"):
        monkeypatch.setattr(module, "multiprocessors", lambda device: MULTIPROCESSORS)
    return module


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    board = ROOT / "leaderboards" / "cholesky"
    sys.path.insert(0, str(board))
    try:
        sys.modules.pop("task", None)
        spec = importlib.util.spec_from_file_location("cholesky_reference", board / "reference.py")
        assert spec is not None
        assert spec.loader is not None
        reference = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(reference)
        return reference
    finally:
        sys.modules.pop("task", None)
        sys.path.remove(str(board))


CASES = [
    (3, 1, "dense", 2), (2, 7, "dense", 2), (4, 32, "spectrum", 5), (2, 33, "dense", 2), (2, 64, "diagonal", 5),
    (2, 65, "dense", 2), (1, 100, "lowrank", 3), (2, 128, "spectrum", 5), (2, 129, "dense", 2), (2, 256, "lowrank", 4),
    (1, 300, "spectrum", 5), (2, 512, "rowscale", 4), (1, 512, "tridiagonal", 1), (2, 640, "dense", 2),
    (1, 1000, "lowrank", 4),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "n", "case", "cond"), CASES)
def test_plan_and_numerics(module, reference, batch: int, n: int, case: str, cond: int) -> None:
    data = reference.generate_input(batch, n, cond, 1000 + n, case)
    kept = data.clone()
    factor = module.custom_kernel(data)
    right, message = reference.check_implementation(data, factor)
    assert right, message
    assert torch.equal(data, kept)
    assert not factor.triu(1).any()


def residual(a: torch.Tensor, factor: torch.Tensor) -> float:
    """‖L·Lᵀ − A‖₁ / (n·ε·‖A‖₁), in float64."""
    a, factor = a.double(), factor.double()
    norm = torch.linalg.matrix_norm(factor @ factor.mT - a, 1) / torch.linalg.matrix_norm(a, 1)
    return float(norm.max()) / (a.shape[-1] * torch.finfo(torch.float32).eps)


@pytest.mark.parametrize(("n", "case", "cond"), [(512, "dense", 2), (512, "rowscale", 4), (768, "spectrum", 5)])
def test_residual_is_of_the_librarys_class(module, reference, n: int, case: str, cond: int) -> None:
    data = reference.generate_input(1, n, cond, 7, case)
    ours, librarys = (residual(data, made) for made in (module.custom_kernel(data), reference.ref_kernel(data)))
    assert ours < 8 * librarys, f"{ours:.3g} against {librarys:.3g}"


@pytest.mark.parametrize("n", [20, 60, 128, 400])
def test_not_positive_definite_ends_as_not_finite(module, n: int) -> None:
    data = torch.eye(n).repeat(2, 1, 1)
    data[1, n // 2, n // 2] = -1
    factor = module.custom_kernel(data)
    assert torch.equal(factor[0], torch.eye(n))
    assert not factor[1].isfinite().all()

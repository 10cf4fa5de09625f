"""The Gluon kernels for Blackwell of the cholesky board, as far as a machine without such a card can tell.

There is no interpreter for Gluon. The host program runs as it is, on the CPU, with a stand-in in torch for each kernel:
the same blocks, tile map, slots of the panel and 3×TF32 products, so that plan and numerics are proved. What the
kernels themselves become is looked up in their SASS.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from emulated import ROOT, load_submission

pytest.importorskip("triton.experimental.gluon", reason="Triton with Gluon is not installed")

KINDS = ("blocked", "persistent", "warpspec")
FILES = [f"cholesky_gluon_tcgen05_{kind}.py" for kind in KINDS]
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

    def update_tile(panel, source, factor, size, matrix, i, j, slot, steps):
        """Block (i, j), in blocks of the matrix."""
        row = matrix * size + i * block
        inner = slice(slot * block, slot * block + steps * module.DEPTH.value)
        left, right = (tuple(part.base[matrix * size + k * block :][:block, inner] for part in panel) for k in (i, j))
        at = (slice(row, row + block), slice(j * block, (j + 1) * block))
        factor.base[at] = source.base[at] - product(left, right)

    def one_tile(grid, hi, lo, source, factor, size, start, columns, slot, steps, tiles, num_warps):
        rows = size // block - start
        for program in range(grid):
            i, j = module.tile_of.fn(program % tiles, rows, columns, 1)
            update_tile((hi, lo), source, factor, size, program // tiles, start + i, start + j, slot, steps)

    def persistent(
        grid, hi, lo, hi_right, lo_right, source, factor, size, start, columns, slot, steps, tiles, total, SPAN, **_
    ):
        """What a wide tile has above the diagonal is NaN here: the kernel writes it, and it must not matter."""
        assert grid == min(total, MULTIPROCESSORS)
        assert hi_right.block_shape[0] == SPAN * hi.block_shape[0]
        assert (steps * module.WIDTH.value) % (SPAN * block) == 0
        rows = size // block - start
        for t in (t for program in range(grid) for t in range(program, total, grid)):
            i, j = module.tile_of.fn(t % tiles, rows, columns, SPAN)
            for k in range(SPAN * j, SPAN * j + SPAN):
                at = t // tiles * size + (start + i) * block
                if k <= i:
                    update_tile((hi, lo), source, factor, size, t // tiles, start + i, start + k, slot, steps)
                else:
                    factor.base[at : at + block, (start + k) * block : (start + k + 1) * block] = torch.nan

    update_kernel = persistent if hasattr(module, "place_of") else one_tile
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
    (2, 100, "lowrank", 3), (2, 128, "spectrum", 5), (2, 256, "lowrank", 4), (1, 300, "spectrum", 5),
    (2, 512, "rowscale", 4), (1, 512, "tridiagonal", 1), (1, 897, "dense", 2),
]  # fmt: skip


@pytest.mark.parametrize("span", [1, 2])
@pytest.mark.parametrize("rows", range(1, 12))
def test_tile_map_covers_every_tile_once(rows: int, span: int) -> None:
    module = load_submission("cholesky", FILES[0])
    for columns in range(1, -(-rows // span) + 1):
        found = [module.tile_of.fn(t, rows, columns, span) for t in range(module.tile_count(rows, columns, span))]
        assert sorted(found) == [(i, j) for i in range(rows) for j in range(columns) if i >= span * j]


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 8])
def test_plan_sums_every_product_once(blocks: int) -> None:
    """Every block column is updated by every one to its left, before it is solved, and read from the original once."""
    module = load_submission("cholesky", FILES[0])
    summed = {column: set() for column in range(blocks)}
    for step in module.plan(blocks):
        assert summed[step.block] == set(range(step.block))
        added = set(range(step.block - step.slot + step.first_slot, step.block + 1))
        for column in range(step.block + 1, step.block + 1 + step.columns):
            assert not summed[column] & added
            assert step.fresh == (not summed[column])
            summed[column] |= added


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


@pytest.mark.parametrize(("n", "case", "cond"), [(384, "dense", 2), (512, "spectrum", 5)])
def test_residual_is_of_the_librarys_class(module, reference, n: int, case: str, cond: int) -> None:
    data = reference.generate_input(1, n, cond, 7, case)
    ours, librarys = (residual(data, made) for made in (module.custom_kernel(data), reference.ref_kernel(data)))
    assert ours < 3 * librarys, f"{ours:.3g} against {librarys:.3g}"


@pytest.mark.parametrize("n", [20, 60, 128, 400])
def test_not_positive_definite_ends_as_not_finite(module, n: int) -> None:
    data = torch.eye(n).repeat(2, 1, 1)
    data[1, n // 2, n // 2] = -1
    factor = module.custom_kernel(data)
    assert torch.equal(factor[0], torch.eye(n))
    assert not factor[1].isfinite().all()


def functions_of(file: str) -> dict[str, str]:
    """Source of every function and class of a submission."""
    text = (ROOT / "submissions" / "cholesky" / file).read_text()
    nodes = ast.parse(text).body
    return {node.name: ast.unparse(node) for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_what_the_files_share_is_the_same() -> None:
    """Each must stand alone; only what is about the update may differ, and of that, host code between the first two."""
    blocked, persistent, warpspec = (functions_of(f"cholesky_gluon_tcgen05_{kind}.py") for kind in KINDS)
    differing = {name for name in blocked.keys() & persistent.keys() if blocked[name] != persistent[name]}
    assert differing == {"update_kernel", "pieces_of", "update", "factor_blocks"}
    differing = {name for name in persistent.keys() & warpspec.keys() if persistent[name] != warpspec[name]}
    assert differing == {"update_kernel", "update"}


UPDATE_ALONE = """

def custom_kernel(data):
    panel = data.new_empty(*data.shape[:2], PANEL * BLOCK.value)
    for step in plan(data.shape[-1] // BLOCK.value)[:2]:
        operands = {span: [pieces_of(panel, s) for s in (1, 1, span, span)] for span in (1, 2)}
        update(operands, slices_of(data), slices_of(data), data.shape, step)
    return data
"""
"""Appended to a file whose other kernels are those of the first, which is compiled as it is."""

EXPECTED = {
    "factor_kernel": {"UTCHMMA", "LDTM", "UTCBAR"},
    "solve_kernel": {"UTCHMMA", "LDTM", "UTCBAR", "UTMALDG", "UTMASTG", "SYNCS"},
    "update_kernel": {"UTCHMMA", "LDTM", "UTCBAR", "UTMALDG", "UTMASTG", "SYNCS"},
}
"""Of a kernel's SASS: tcgen05.mma of TF32 (HMMA; FP16's has the same name), its loads, its arrivals; TMA; barriers."""

COLUMNS = {"blocked": {128}, "persistent": {256, 512}, "warpspec": {256, 512}}
"""Of tensor memory, that the update allocates: one accumulator of 128, two of 128 or of 256."""


@pytest.mark.parametrize("kind", [pytest.param("blocked", marks=pytest.mark.slow), "persistent", "warpspec"])
def test_compiles_to_what_it_should(kind: str, tmp_path: Path) -> None:
    text = (ROOT / "submissions" / "cholesky" / f"cholesky_gluon_tcgen05_{kind}.py").read_text()
    copy = tmp_path / "kernels.py"
    copy.write_text(text if kind == "blocked" else text + UPDATE_ALONE)
    command = [sys.executable, "-m", "harness.cli.main", "compile", str(copy), "--arch", "sm_100a", "--case", "4"]
    done = subprocess.run(
        [*command, "--json", "--ptx", str(tmp_path), "--sass", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HARNESS_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (compilation,) = json.loads(done.stdout)["compilations"]
    seen = set()
    for kernel in compilation["kernels"]:
        seen.add(kernel["name"])
        assert kernel["resources"]["spill_store_bytes"] == 0
        if kernel["name"] == "update_kernel":
            assert kernel["resources"]["tensor_memory_columns"] in COLUMNS[kind]
    assert seen == (set(EXPECTED) if kind == "blocked" else {"update_kernel"})
    for listing in tmp_path.glob("*.sass"):
        words = set(re.findall(r"[A-Z][A-Z0-9]+", listing.read_text()))
        (name,) = (name for name in EXPECTED if name in listing.name)
        assert words >= EXPECTED[name]
        assert not words & {"STL", "LDL"}
        ptx = listing.with_suffix(".ptx").read_text()
        assert "tcgen05.mma.cta_group::1.kind::tf32" in ptx
        assert ptx.index("tcgen05.relinquish_alloc_permit") < ptx.index("tcgen05.mma")
        assert ("setmaxnreg" in ptx) == (kind == "warpspec")

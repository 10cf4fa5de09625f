"""The CuTe DSL kernels of the cholesky board, as far as a machine without a GPU can tell.

CuTe DSL has no interpreter. The host program is compiled with the kernels, but it is also Python: it runs here as it
is written, on CPU tensors, with a stand-in in torch for each kernel: the same blocks, tile map, panel, order of
launches and 3×TF32 products. It also runs with the kernels themselves: their PTX, emulated (emulated_ptx.py). What
ptxas makes of that is looked up in the SASS.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from cholesky_checks import (
    FOLDER,
    assert_not_finite_where_not_positive_definite,
    assert_right,
    assert_right_of_any_view,
    compile_without_spills,
    residual,
)
from emulated import load_submission
from emulated_ptx import Block, Kernel, entries

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed")

HOPPER, BLACKWELL, LATE = "cholesky_cute_wgmma.py", "cholesky_cute_tcgen05_blocked.py", "cholesky_cute_permit_late.py"
FILES = (HOPPER, BLACKWELL)  # LATE's host program is BLACKWELL's


def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """hi and lo in TF32: the nearest with 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 rounds."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        bits = (x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
        return torch.where(x.isfinite(), bits.view(torch.float32), x)

    hi = rounded(x)
    return hi, rounded(x - hi)


def substituted(rows: torch.Tensor, corner: torch.Tensor) -> torch.Tensor:
    """X·Lᵀ = A by columns, as `substitute` does it."""
    rows = rows.clone()
    for k in range(corner.shape[-1]):
        rows[:, :, k] *= 1 / corner[:, k, k, None]
        rows[:, :, k + 1 :] -= rows[:, :, k, None] * corner[:, None, k + 1 :, k]
    return rows


def factored(a: torch.Tensor) -> torch.Tensor:
    """POTF2 by columns, as `factor_diagonal` does it."""
    a = a.clone()
    for k in range(a.shape[-1]):
        a[:, :, k] *= a[:, k, k, None].rsqrt()
        a[:, :, k + 1 :] -= a[:, :, k, None] * a[:, None, k + 1 :, k]
    return a.tril()


class Launch(SimpleNamespace):
    """What calling a kernel gives: its body and its arguments, to be launched."""

    def launch(self, grid: tuple[int, int, int], block: tuple[int, int, int], stream: Any, **_: Any) -> None:
        assert min(grid) >= 1
        assert grid[1:] == block[1:] == (1, 1)
        self.log.append(self.name)
        self.body(grid[0], block[0], *self.arguments)


def tensor_at(address: int, *shape: int) -> torch.Tensor:
    """The CPU tensor that is there already."""
    count = int(torch.tensor(shape).prod())
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32).view(shape)


def stand_ins(module: ModuleType, log: list[str]) -> dict[str, Any]:
    tile, width = module.TILE, module.WIDTH

    def factor_kernel(grid, threads, source, factor, inverses, block, n, size, exact, invert):
        assert grid == len(source)
        assert threads == size * (1 + invert)
        assert exact == (n % size == 0)
        at = slice(block * size, min((block + 1) * size, n))
        rows = torch.eye(size).repeat(grid, 1 + invert, 1)
        inside = at.stop - at.start
        rows[:, :inside, :inside] = source[:, at, at]
        for first in range(0, size, width):
            strip = slice(first, first + width)
            rows[:, :, strip] -= rows[:, :, :first] @ rows[:, strip, :first].mT
            corner = factored(rows[:, strip, strip])
            rows[:, :, strip] = substituted(rows[:, :, strip], corner)
            rows[:, strip, strip] = corner
        factor[:, at, at] = rows[:, :inside, :inside].tril()
        if invert:
            for part, to in zip(parts(rows[:, size:].triu().mT), inverses, strict=True):
                to.view(grid, size, size).copy_(part)

    def product_kernel(grid, threads, operands, _, source, factor, panel, first_row, first_column, slot, steps, kind):
        assert threads == module.THREADS
        left_hi, left_lo, right_hi, right_lo = operands if len(operands) == 4 else operands[0] + operands[1]
        batch, n, _ = factor.shape
        blocks, inner = n // tile, steps * module.DEPTH
        rows = blocks - first_row
        tiles = module.tile_count(rows) if kind == module.TRAILING else rows
        assert grid == batch * tiles
        written = set()
        for cta in range(grid):
            matrix, t = divmod(cta, tiles)
            i, j = module.tile_of.__wrapped__(t, rows) if kind == module.TRAILING else (t, 0)
            row, column = first_row + i, first_column + j
            if row < column:
                continue
            assert (matrix, row, column) not in written
            written.add((matrix, row, column))
            left, right, first = matrix * blocks + row, matrix * blocks + column, 0
            if kind == module.SOLVE:
                right, first = matrix, slot * tile
            a_hi, a_lo = (x[left * tile :][:tile, first : first + inner] for x in (left_hi, left_lo))
            b_hi, b_lo = (x[right * tile :][:tile, :inner] for x in (right_hi, right_lo))
            sums = (a_lo @ b_hi.mT + a_hi @ b_lo.mT) + a_hi @ b_hi.mT
            down, across = slice(row * tile, (row + 1) * tile), slice(column * tile, (column + 1) * tile)
            if kind != module.SOLVE:
                sums = source[matrix, down, across] - sums
            if kind != module.COLUMN or row == column:
                factor[matrix, down, across] = sums
            if kind == module.SOLVE or (kind == module.COLUMN and row != column):
                for part, to in zip(parts(sums), panel, strict=True):
                    to[left * tile :][:tile, slot * tile : (slot + 1) * tile] = part
            if kind == module.SOLVE:
                factor[matrix, across, down] = 0
        expected = rows * (rows + 1) // 2 if kind == module.TRAILING else rows
        assert len(written) == batch * expected

    return {
        "factor_kernel": kernel("factor", factor_kernel, log),
        "product_kernel": kernel("product", product_kernel, log),
    }


def kernel(name: str, body: Any, log: list[str]) -> Any:
    return lambda *arguments: Launch(name=name, log=log, body=body, arguments=arguments)


def on_cpu(module: ModuleType, kernels: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The host program as Python: pointers are addresses of CPU tensors, and kernels are what is given."""

    def pointers(*addresses: int) -> tuple[int, ...]:
        assert not any(address % module.ALIGNED for address in addresses)
        return addresses

    stand_ins = {
        "cutlass": SimpleNamespace(range=lambda n, unroll: range(n), const_expr=bool),
        "Int32": int,
        **{name: MagicMock() for name in ("cute", "cuda", "blackwell", "warpgroup", "tile_mma")},
        "pointers": pointers,
        "matrices": lambda address, n, batch, divisor: tensor_at(address, batch, n, n),
        "rows_of": lambda address, rows, columns: tensor_at(address, rows, columns),
        "operand": lambda x, *_: x,
        "compiled": lambda: module.cholesky.__wrapped__,
        "compiled_small": lambda *key: lambda *given: module.cholesky_small.__wrapped__(*given, *key),
        **kernels,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(module, name, stand_in, raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))


@pytest.fixture(params=FILES)
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A submission whose kernels are stand-ins; `launches` has the names of those that ran."""
    module = load_submission("cholesky", request.param)
    module.launches = []
    on_cpu(module, stand_ins(module, module.launches), monkeypatch)
    return module


CASES = [
    (3, 1, "dense", 2), (2, 7, "dense", 2), (4, 32, "spectrum", 5), (2, 33, "dense", 2), (2, 64, "diagonal", 5),
    (2, 65, "dense", 2), (1, 100, "lowrank", 3), (2, 128, "spectrum", 5), (2, 129, "dense", 2), (2, 256, "lowrank", 4),
    (1, 300, "spectrum", 5), (2, 512, "rowscale", 4), (1, 512, "tridiagonal", 1), (2, 640, "dense", 2),
    (1, 1000, "lowrank", 4), (1, 1280, "dense", 2),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "n", "case", "cond"), CASES)
def test_host_program_and_numerics(module, reference, batch: int, n: int, case: str, cond: int) -> None:
    assert_right(module, reference, batch, n, case, cond)
    assert len(module.launches) == (1 if n <= module.SMALL else launches_for(-(-n // module.TILE), module.PANEL))


@pytest.mark.parametrize("n", [20, 64, 256, 300])
def test_right_of_any_view(module, reference, n: int) -> None:
    assert_right_of_any_view(module, reference, 2, n)


def launches_for(blocks: int, panel: int) -> int:
    """Column and factor for each block, solve for all but the last, trailing where a panel is full and has a rest."""
    return 3 * blocks - 1 + (blocks - 1) // panel


@pytest.mark.parametrize(("n", "case", "cond"), [(512, "dense", 2), (512, "rowscale", 4), (768, "spectrum", 5)])
def test_residual_is_of_the_librarys_class(module, reference, n: int, case: str, cond: int) -> None:
    data = reference.generate_input(1, n, cond, 7, case)
    ours, librarys = (residual(data, made) for made in (module.custom_kernel(data), reference.ref_kernel(data)))
    print(f"{n} {case}: {ours:.3g}, the library {librarys:.3g}")
    assert ours < 8 * librarys, f"{ours:.3g} against {librarys:.3g}"


@pytest.mark.parametrize("n", [20, 60, 128, 400])
def test_not_positive_definite_ends_as_not_finite(module, n: int) -> None:
    assert_not_finite_where_not_positive_definite(module, n)


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 31, 255])
def test_tiles_are_covered_once(module, rows: int) -> None:
    tiles = [module.tile_of.__wrapped__(t, rows) for t in range(module.tile_count(rows))]
    below = [(i, j) for i, j in tiles if i >= j]
    assert len(below) == len(set(below)) == rows * (rows + 1) // 2
    assert all(0 <= j <= i < rows for i, j in below)
    assert len(tiles) - len(below) <= (rows + module.GROUP) * module.GROUP // 2


def code_of(file: str) -> list[str]:
    """Its statements without docstrings and comments, a line each."""
    tree = ast.parse((FOLDER / file).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree).splitlines()


def test_the_control_differs_in_one_placement() -> None:
    early, late = code_of(BLACKWELL), code_of(LATE)
    permit = "        tmem.relinquish_alloc_permit()"
    assert early.count(permit) == late.count(permit) == 1
    assert early[early.index(permit) - 1].strip() == "tmem.allocate(TMEM_COLUMNS)"
    assert late[late.index(permit) - 1].strip() == "result.release()"
    for code in (early, late):
        code.remove(permit)
    assert early == late


# Emulated --------------------------------------------------------------------------------------------------------


def compile_ptx(file: str, arch: str, small: tuple[int, bool], folder: Path) -> tuple[list[Kernel], Kernel]:
    """The kernels of large matrices, in the order in which they are first launched, and one of small matrices."""
    program = (
        f"from emulated import load_submission; module = load_submission('cholesky', {file!r});"
        f"module.compiled(); module.compiled_small{small}"
    )
    settings = {"CUTE_DSL_ARCH": arch, "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, env={**os.environ, **settings}, check=True
    )
    texts = {"_small_" in path.name: path.read_text() for path in folder.glob("*.ptx")}
    (of_small,) = entries(texts[True])
    return [Kernel(text) for text in entries(texts[False])], Kernel(of_small)


def packed(x: torch.Tensor) -> bytes:
    """A tensor as a kernel takes it: where it is, its shape, and the strides that are not constant."""
    if x.dim() == 2:
        return struct.pack("<Qixxxx", x.data_ptr(), len(x))
    batch, n, _ = x.shape
    return struct.pack("<Qiiixxxxqq", x.data_ptr(), n, n, batch, n, n * n)


def run_ptx(kernel: Kernel, grid: int, threads: int, tensors: list[torch.Tensor], values: list[Any]) -> None:
    """Launches it. values: of all parameters; a matrix for TMA is an array, and followed by 4 bytes of its shape."""
    assert threads == kernel.threads
    parameters = dict(zip(kernel.parameters, values, strict=True))
    for number in range(grid):
        Block(kernel, number, parameters, [x.numpy() for x in tensors]).run()


def emulated(module: ModuleType, large: list[Kernel], small: Kernel) -> dict[str, Any]:
    column, factor_large, solve, trailing = large
    products = {module.COLUMN: column, module.SOLVE: solve, module.TRAILING: trailing}

    def integers(*numbers: int) -> list[bytes]:
        return [struct.pack("<i", number) for number in numbers]

    def factor_kernel(grid, threads, source, factor, inverses, block, n, size, exact, invert):
        chosen = factor_large if invert else small
        tensors = [source, factor, *inverses]
        run_ptx(chosen, grid, threads, tensors, [*map(packed, tensors), *integers(block, n)])

    def product_kernel(grid, threads, operands, _, source, factor, panel, *numbers):
        *places, kind = numbers
        if len(operands) == 2:
            operands = operands[0] + operands[1]
        maps = [value for x in operands for value in (x.numpy(), struct.pack("<i", len(x)))]
        tensors = [source, factor, *panel]
        run_ptx(products[kind], grid, threads, tensors, [*maps, *map(packed, tensors), *integers(*places)])

    log: list[str] = []
    return {
        "factor_kernel": kernel("factor", factor_kernel, log),
        "product_kernel": kernel("product", product_kernel, log),
    }


@pytest.mark.thorough
@pytest.mark.parametrize(("file", "arch"), [(HOPPER, "sm_90a"), (BLACKWELL, "sm_100a")])
def test_ptx_is_right(file: str, arch: str, reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch with rows that are not the matrix's; a panel and a half of padded matrices. A minute."""
    module = load_submission("cholesky", file)
    on_cpu(module, emulated(module, *compile_ptx(file, arch, (64, False), tmp_path)), monkeypatch)
    for n in (41, 300):
        data = reference.generate_input(2, n, 4, n, "rowscale")
        factor = module.custom_kernel(data)
        right, message = reference.check_implementation(data, factor)
        assert right, message
        assert not factor.triu(1).any()
        ours, librarys = residual(data, factor), residual(data, reference.ref_kernel(data))
        print(f"{n}: {ours:.3g}, the library {librarys:.3g}")
        assert ours < 8 * librarys, f"{ours:.3g} against {librarys:.3g}"


# Compiled --------------------------------------------------------------------------------------------------------


def compile_file(harness_compile, file: str, arch: str, folder: Path) -> list[dict[str, Any]]:
    """The kernels of a case of several blocks: what `harness compile` reports, and the texts of their PTX and SASS."""
    made = compile_without_spills(harness_compile, FOLDER / file, arch, folder / "ptx", folder / "sass")
    texts = [[path.read_text() for path in sorted((folder / kind).iterdir())] for kind in ("ptx", "sass")]
    kernels = [kernel | {"ptx": ptx, "sass": sass} for kernel, ptx, sass in zip(made, *texts, strict=True)]
    assert len(kernels) == 4  # of factor_kernel one, of product_kernel three
    assert not [kernel for kernel in kernels if "STL" in kernel["sass"]]
    return kernels


def products(kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [kernel for kernel in kernels if kernel["name"].startswith("product_kernel")]


@pytest.mark.thorough
def test_hopper_multiplies_with_wgmma_and_fits_twice(harness_compile, tmp_path: Path) -> None:
    for kernel in products(compile_file(harness_compile, HOPPER, "sm_90a", tmp_path)):
        assert kernel["occupancy"]["blocks"] == 2
        assert len(re.findall(r"HGMMA\.64x128x8\.F32\.TF32", kernel["sass"])) == 6
        assert kernel["sass"].count("UTMALDG.2D") == 4
        assert kernel["ptx"].count("mbarrier.try_wait") > 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file", "order"),
    [
        (BLACKWELL, ["alloc", "relinquish_alloc_permit", "mma", "ld", "dealloc"]),
        (LATE, ["alloc", "mma", "ld", "relinquish_alloc_permit", "dealloc"]),
    ],
)
def test_blackwell_multiplies_with_tcgen05_and_fits_four_times(
    harness_compile, file: str, order: list[str], tmp_path: Path
) -> None:
    module = load_submission("cholesky", file)
    kernels = products(compile_file(harness_compile, file, "sm_100a", tmp_path))
    for kernel in kernels:
        resources = kernel["resources"]
        assert kernel["occupancy"]["blocks"] == module.CTAS_PER_SM == 4
        assert resources["tensor_memory_columns"] == module.TMEM_COLUMNS == 128
        assert resources["threads"] == module.THREADS == 128
        assert resources["registers"] * resources["threads"] * 4 <= 65536
        assert (resources["dynamic_shared_bytes"] + 1024) * 4 <= 228 * 1024
        assert kernel["sass"].count("UTMALDG.2D") == 4
    entries = [text for text in kernels[0]["ptx"].split(".visible .entry") if "tcgen05.alloc" in text]
    assert len(entries) == 3
    for text in entries:
        found = re.findall(r"tcgen05\.(alloc|relinquish_alloc_permit|mma|ld|dealloc)\.", text)
        assert list(dict.fromkeys(found)) == order
        assert [found.count(name) for name in ("alloc", "relinquish_alloc_permit", "dealloc")] == [1, 1, 1]
        assert text.count("tcgen05.mma.cta_group::1.kind::tf32") == 6

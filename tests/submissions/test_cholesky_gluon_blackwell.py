"""The Gluon kernels for Blackwell of the cholesky board, as far as a machine without such a card can tell.

Their source runs as Python over torch (`gluon_emulator`), which proves plan, indices, barriers and 3×TF32 numerics (and
test_gluon_emulator.py that it would not prove anything else); what they become is looked up in their SASS.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from cholesky_checks import (
    FOLDER,
    assert_not_finite_where_not_positive_definite,
    assert_right,
    assert_right_of_any_view,
    compile_without_spills,
    functions_of,
    residual,
)
from gluon_emulator import Device, load_gluon

pytestmark = pytest.mark.usefixtures("nan_where_allocated")

KINDS = ("blocked", "persistent", "warpspec")
FILES = [f"cholesky_gluon_tcgen05_{kind}.py" for kind in KINDS]


def emulated(file: str, device: Device | None = None, multiprocessors: int = 2) -> ModuleType:
    """With few multiprocessors, so that every one has several tiles."""
    module = load_gluon("cholesky", FOLDER / file, device or Device())
    module.multiprocessors = lambda device: multiprocessors
    return module


CASES = [
    (3, 1, "dense", 2), (2, 7, "dense", 2), (4, 32, "spectrum", 5), (2, 33, "dense", 2), (2, 64, "diagonal", 5),
    (2, 100, "lowrank", 3), (2, 128, "spectrum", 5), (2, 256, "lowrank", 4), (1, 300, "spectrum", 5),
    (1, 512, "rowscale", 4), (1, 512, "tridiagonal", 1),
]  # fmt: skip


@pytest.mark.parametrize("span", [1, 2])
@pytest.mark.parametrize("rows", range(1, 12))
def test_tile_map_covers_every_tile_once(rows: int, span: int) -> None:
    module = emulated(FILES[0])
    for columns in range(1, -(-rows // span) + 1):
        found = [module.tile_of(t, rows, columns, span) for t in range(module.tile_count(rows, columns, span))]
        assert sorted(found) == [(i, j) for i in range(rows) for j in range(columns) if i >= span * j]


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 8])
def test_plan_sums_every_product_once(blocks: int) -> None:
    """Every block column is updated by every one to its left, before it is solved, and read from the original once."""
    module = emulated(FILES[0])
    summed = {column: set() for column in range(blocks)}
    for step in module.plan(blocks):
        assert summed[step.block] == set(range(step.block))
        added = set(range(step.block - step.slot + step.first_slot, step.block + 1))
        for column in range(step.block + 1, step.block + 1 + step.columns):
            assert not summed[column] & added
            assert step.fresh == (not summed[column])
            summed[column] |= added


@pytest.mark.parametrize(("batch", "n", "case", "cond"), CASES)
def test_right(reference, batch: int, n: int, case: str, cond: int) -> None:
    """The first of the files; what the others share with it is the same."""
    assert_right(emulated(FILES[0]), reference, batch, n, case, cond)


@pytest.mark.parametrize("n", [20, 256])
@pytest.mark.parametrize("file", FILES)
def test_right_of_any_view(reference, file: str, n: int) -> None:
    assert_right_of_any_view(emulated(file), reference, 2, n)


@pytest.mark.parametrize("file", FILES)
def test_right_however_late(reference, file: str) -> None:
    assert_right(emulated(file, Device(chance=0)), reference, 2, 384)


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(4, 12))])
@pytest.mark.parametrize("file", FILES)
def test_right_whatever_comes_first(reference, file: str, seed: int) -> None:
    """Wide and narrow tiles, panels that are full and not, and one program, which uses all that it has again.

    A third of the seeds, 3 among them, let a partition get so far ahead that it would not do without any barrier.
    """
    assert_right(emulated(file, Device(seed), multiprocessors=1), reference, 1, 640)


def test_residual_is_of_the_librarys_class(reference) -> None:
    data = reference.generate_input(1, 384, 2, 7)
    made = emulated(FILES[0]).custom_kernel(data)
    ours, librarys = residual(data, made), residual(data, reference.ref_kernel(data))
    assert ours < 3 * librarys, f"{ours:.3g} against {librarys:.3g}"


@pytest.mark.parametrize("n", [20, 60, 128, 300])
def test_not_positive_definite_ends_as_not_finite(n: int) -> None:
    assert_not_finite_where_not_positive_definite(emulated(FILES[0]), n)


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


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["blocked", "persistent", "warpspec"])
def test_compiles_to_what_it_should(harness_compile, kind: str, tmp_path: Path) -> None:
    pytest.importorskip("triton.experimental.gluon", reason="Triton with Gluon is not installed")
    text = (FOLDER / f"cholesky_gluon_tcgen05_{kind}.py").read_text()
    copy = tmp_path / "kernels.py"
    copy.write_text(text if kind == "blocked" else text + UPDATE_ALONE)
    kernels = compile_without_spills(harness_compile, copy, "sm_100a", tmp_path, tmp_path)
    for kernel in kernels:
        if kernel["name"] == "update_kernel":
            assert kernel["resources"]["tensor_memory_columns"] in COLUMNS[kind]
    names = {kernel["name"] for kernel in kernels}
    assert names == (set(EXPECTED) if kind == "blocked" else {"update_kernel"})
    for listing in tmp_path.glob("*.sass"):
        words = set(re.findall(r"[A-Z][A-Z0-9]+", listing.read_text()))
        (name,) = (name for name in EXPECTED if name in listing.name)
        assert words >= EXPECTED[name]
        assert not words & {"STL", "LDL"}
        ptx = listing.with_suffix(".ptx").read_text()
        assert "tcgen05.mma.cta_group::1.kind::tf32" in ptx
        assert ptx.index("tcgen05.relinquish_alloc_permit") < ptx.index("tcgen05.mma")
        assert ("setmaxnreg" in ptx) == (kind == "warpspec")

"""The portable Gluon kernels and those for Hopper of the cholesky board, as far as a machine without a GPU can tell.

Their source runs as Python over torch (`gluon_emulator`), which proves plan, addresses, barriers and the numerics of
3×TF32 (and test_gluon_emulator.py that it would not prove anything else); what they become is looked up in their PTX
and SASS.
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

BLOCKED, WGMMA = FILES = "cholesky_gluon_blocked.py", "cholesky_gluon_wgmma.py"
MULTIPROCESSORS = 3  # of the make-believe device: few, so that every one has several tiles


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture(params=FILES)
def module(request, device, nan_where_allocated) -> ModuleType:
    """A submission that runs here."""
    loaded = load_gluon("cholesky", FOLDER / request.param, device)
    if request.param == WGMMA:
        loaded.multiprocessors_of = lambda device: MULTIPROCESSORS
    return loaded


wgmma_only = pytest.mark.parametrize("module", [WGMMA], indirect=True)


@pytest.fixture(params=[0.3, 0], ids=["at random", "late"])
def delays(request, device) -> None:
    """When asynchronous work is done."""
    device.chance = request.param


def times_the_librarys(module, reference, batch: int, n: int, case: str = "dense", cond: int = 2) -> float:
    """The residual of a right answer as a multiple of the library's."""
    data, factor = assert_right(module, reference, batch, n, case, cond)
    return residual(data, factor) / max(residual(data, reference.ref_kernel(data)), 1e-9)


@pytest.mark.parametrize(
    ("batch", "n", "case", "cond"),
    [
        (2, 1, "dense", 2), (3, 7, "dense", 2), (2, 32, "spectrum", 5), (2, 33, "dense", 2), (2, 64, "diagonal", 5),
        (2, 100, "lowrank", 3), (1, 128, "spectrum", 5), (2, 129, "dense", 2), (1, 200, "spectrum", 5),
    ],
)  # fmt: skip
def test_right(module, reference, batch: int, n: int, case: str, cond: int) -> None:
    assert_right(module, reference, batch, n, case, cond)


@pytest.mark.parametrize("n", [20, 140])
def test_right_of_any_view(module, reference, n: int) -> None:
    assert_right_of_any_view(module, reference, 2, n)


@pytest.mark.parametrize(("batch", "n"), [(2, 130), (1, 260)])
def test_right_whenever_copies_and_products_are_done(module, reference, delays, batch: int, n: int) -> None:
    """With groups of two blocks, so that there is an update of every kind."""
    module.GROUP = 128
    module.group_of = lambda n: 256
    assert times_the_librarys(module, reference, batch, n) < 2


@wgmma_only
def test_right_with_wide_tiles(module, reference, delays) -> None:
    """Tiles beyond the last row, above the diagonal, and several a program."""
    module.group_of = lambda n: 128
    module.shape_of = lambda step, batch, multiprocessors: module.COLUMN if step.columns == 128 else module.WIDE
    assert times_the_librarys(module, reference, 1, 390) < 2


@pytest.mark.parametrize(("case", "cond", "most"), [("dense", 5, 2), ("lowrank", 4, 20)])
def test_residual_is_of_the_librarys_class(module, reference, case: str, cond: int, most: float) -> None:
    """`most` is for a diagonal block's inverse; the other file substitutes."""
    times = times_the_librarys(module, reference, 1, 256, case, cond)
    assert times < (most if hasattr(module, "WIDE") else 2), f"{times:.2g} times the library's"


@pytest.mark.parametrize("n", [20, 60, 128, 300])
def test_not_positive_definite_ends_as_not_finite(module, n: int) -> None:
    assert_not_finite_where_not_positive_definite(module, n)


@wgmma_only
@pytest.mark.parametrize("side", range(1, 20))
def test_tile_map_covers_the_triangle_once(module, side: int) -> None:
    tiles = [module.tile_of(t, side, module.BESIDE) for t in range(module.tile_count(side, module.NARROW))]
    assert sorted((i, j) for i, j in tiles if j <= i) == [(i, j) for i in range(side) for j in range(i + 1)]
    assert [module.tile_of(t, side, 1) for t in range(module.tile_count(side, module.COLUMN))] == [
        (i, 0) for i in range(side)
    ]
    assert module.tile_count(side, module.WIDE) == 2 * len(tiles)


@pytest.mark.parametrize("n", [129, 300, 512, 1000, 1024, 5000, 16384])
def test_plan_sums_every_product_once(module, n: int) -> None:
    """Every block is taken off by all those to its left before it is factored, and read from A as it came once."""
    block = module.BLOCK
    summed: dict[int, set[int]] = {start: set() for start in range(0, n, block)}
    read: set[int] = set()
    solved: set[int] = set()
    for step in module.plan(n):
        written = range(step.start, min(step.start + step.columns, n), block)
        if step.what == "update":
            group = step.start - step.depth
            for start in written:
                assert not summed[start] & set(range(group, step.start, block))
                summed[start] |= set(range(group, step.start, block))
            assert step.fresh == (not read.intersection(written))
            read.update(written)
        else:
            assert summed[step.start] == set(range(0, step.start, block))
            assert step.fresh == (step.start not in read)
            if step.what == "solve":
                solved.add(step.start)
    assert solved == set(list(summed)[:-1])


def test_what_the_files_share_is_the_same() -> None:
    blocked, wgmma = map(functions_of, FILES)
    differing = {name for name in blocked.keys() & wgmma.keys() if blocked[name] != wgmma[name]}
    assert differing == {"factor_kernel", "solve_kernel", "update_kernel", "plan", "custom_kernel"}


UPDATES = {
    BLOCKED: """

def custom_kernel(data):
    n = data.shape[-1]
    update_kernel[(1,)](
        data, data, data, n, 128, 128, 2, n, GROUP=GROUP, ROWS=ROWS, COLS=ROWS, DEPTH=DEPTH, num_warps=8
    )
    return data
""",
    WGMMA: """

def custom_kernel(data):
    n = data.shape[-1]
    for columns, shape in ((BLOCK, COLUMN), (n - BLOCK, NARROW), (n - BLOCK, WIDE)):
        globals()["shape_of"] = lambda *_, shape=shape: shape
        update(Step("update", BLOCK, BLOCK, columns), data, data, Scratch(data))
    return data
""",
}
"""Appended to a file of which the updates, the hot kernels, are compiled alone."""


def compiled(harness_compile, file: str, folder: Path, arch: str, appended: str = "") -> list[dict]:
    """The kernels of a file as compile mode tells of them; their PTX and SASS are in `folder`."""
    pytest.importorskip("triton.experimental.gluon", reason="Triton with Gluon is not installed")
    copy = folder / "kernels.py"
    copy.write_text((FOLDER / file).read_text() + appended)
    kernels = compile_without_spills(harness_compile, copy, arch, folder, folder)
    for listing in folder.glob("*.sass"):
        assert not {"STL", "LDL"} & set(re.findall(r"[A-Z]+", listing.read_text()))
    return kernels


def test_the_update_for_hopper_compiles_to_what_it_should(harness_compile, tmp_path: Path) -> None:
    kernels = compiled(harness_compile, WGMMA, tmp_path, "sm_90a", UPDATES[WGMMA])
    assert {kernel["name"] for kernel in kernels} == {"update_kernel"}
    widths = set()
    for listing in tmp_path.glob("*.sass"):
        sass, ptx = listing.read_text(), listing.with_suffix(".ptx").read_text()
        widths |= set(re.findall(r"HGMMA\.64x(\d+)x8\.F32\.TF32", sass))
        assert {"UTMALDG", "SYNCS", "USETMAXREG"} <= set(re.findall(r"[A-Z]+", sass))
        assert len(re.findall(r"wgmma\.mma_async[^\n]*\.tf32\.tf32", ptx)) == 6  # three products, sixteen columns
    assert widths == {"128", "256"}


def test_the_portable_update_compiles_to_what_it_should(harness_compile, tmp_path: Path) -> None:
    compiled(harness_compile, BLOCKED, tmp_path, "sm_100a", UPDATES[BLOCKED])
    (listing,) = tmp_path.glob("*.sass")
    words = set(re.findall(r"[A-Z][A-Z0-9]+", listing.read_text()))
    assert {"LDGSTS", "LDS"} <= words
    assert not words & {"HMMA", "UTCHMMA"}


@pytest.mark.thorough
@pytest.mark.parametrize(("file", "arch"), [(WGMMA, "sm_90a"), (BLOCKED, "sm_90a"), (BLOCKED, "sm_100a")])
def test_all_kernels_compile_without_spills(harness_compile, tmp_path: Path, file: str, arch: str) -> None:
    names = {kernel["name"] for kernel in compiled(harness_compile, file, tmp_path, arch)}
    assert names == {"factor_kernel", "solve_kernel", "update_kernel"}

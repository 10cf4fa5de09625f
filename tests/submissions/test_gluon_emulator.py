"""The emulator of Gluon sees mistakes: kernels of the cholesky board with one each, and what it says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cholesky_checks import FOLDER, assert_right
from gluon_emulator import Device, load_gluon

PORTABLE, WGMMA = "cholesky_gluon_blocked.py", "cholesky_gluon_wgmma.py"
TCGEN05, WARPSPEC = "cholesky_gluon_tcgen05_blocked.py", "cholesky_gluon_tcgen05_warpspec.py"

READ_EARLY = "memory is used while it is being written"
FILLED_EARLY = "memory is written while it is being read"
LEFT = "the block ends with copies or products in flight"
OUTSIDE = "an address outside its tensor"
UNALIGNED = "TMA needs columns that begin at sixteen bytes"
DEADLOCK = "deadlock"
WRONG = "expected"
OUT_OF_STEP = "|".join((READ_EARLY, FILLED_EARLY, DEADLOCK, WRONG, "more arrivals at an mbarrier than it counts"))
"""What is said depends on who comes first."""

MISTAKES = {
    "cp.async not waited for": (PORTABLE, "        async_copy.wait_group(0)\n", "", READ_EARLY),
    "cp.async left at the end": (PORTABLE, "    async_copy.wait_group(0)\n    row =", "    row =", LEFT),
    "padding too small": (PORTABLE, "(triton.cdiv(n, ROWS) + 1) * ROWS", "n", OUTSIDE),
    "mask off by one": (WGMMA, "below + row < n", "below + row <= n", OUTSIDE),
    "tile off by one": (WGMMA, "top = first + i", "top = first + 1 + i", WRONG),
    "operand not rounded": (WGMMA, "hi = tf32(x)", "hi = x", "no number of TF32"),
    "no fence": (WGMMA, "    fence_async_shared()\n", "", "without a fence"),
    "TMA not waited for": (WGMMA, "mbarrier.wait(loaded, 0)", "pass", READ_EARLY),
    "wrong phase of loads": (WGMMA, "step // STAGES & 1)\n", "step // STAGES + 1 & 1)\n", OUT_OF_STEP),
    "loader does not wait": (WGMMA, "mbarrier.wait(empty.index(slot), (step // STAGES + 1) & 1)", "pass", OUT_OF_STEP),
    "stage free too early": (WGMMA, "warpgroup_mma_wait(3,", "warpgroup_mma_wait(6,", FILLED_EARLY),
    "arrival forgotten": (WGMMA, "mbarrier.arrive(drained, count=1)", "pass", DEADLOCK),
    "sum overwritten": (WGMMA, "mbarrier.wait(drained, (turn + 1) & 1)", "pass", OUT_OF_STEP),
    "box off by one": (TCGEN05, "col = (start + j) * BLOCK\n", "col = (start + j) * BLOCK + 1\n", UNALIGNED),
    "refill does not wait": (
        TCGEN05, "mbarrier.wait(read.index(q % STAGES), (q // STAGES - 1) % 2, again)", "pass", FILLED_EARLY
    ),
    "wrong phase of products": (TCGEN05, "mbarrier.wait(done, (s - 1) % 2)", "mbarrier.wait(done, s % 2)", READ_EARLY),
    "products not waited for": (TCGEN05, "mbarrier.wait(done.index(0), 0)", "pass", READ_EARLY),
    "store left at the end": (TCGEN05, "    tma.store_wait(0)\n", "", LEFT),
    "buffer still being stored": (WARPSPEC, "tma.store_wait(1)", "tma.store_wait(2)", FILLED_EARLY),
    "wrong phase of a sum": (WARPSPEC, "(m // 2 + 1) % 2", "m // 2 % 2", DEADLOCK),
    "sum overwritten in tensor memory": (
        WARPSPEC, "mbarrier.wait(emptied.index(m % 2), (m // 2 + 1) % 2)", "pass", OUT_OF_STEP
    ),
}  # fmt: skip
"""File, its text, what stands there instead, and what is said of it."""

FAR_AHEAD = "sum overwritten", "sum overwritten in tensor memory"
"""Seen only if one partition gets far ahead of another one, which is so for a third of all seeds; 2 is one."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_would_be_seen(mistake: str, reference, nan_where_allocated, tmp_path: Path) -> None:
    """With what is asynchronous as late as can be, or else by chance."""
    file, right, wrong, message = MISTAKES[mistake]
    text = (FOLDER / file).read_text()
    assert right in text
    (tmp_path / file).write_text(text.replace(right, wrong))
    devices, batch = [Device(chance=0)], 1
    if mistake in FAR_AHEAD:
        devices, batch = [Device(seed) for seed in range(2, 14)], 2

    def run_until_seen() -> None:
        for device in devices:
            module = load_gluon("cholesky", tmp_path / file, device)
            module.group_of = lambda n: 128
            module.multiprocessors = module.multiprocessors_of = lambda device: 1
            assert_right(module, reference, batch, 300)

    with pytest.raises(AssertionError, match=message):
        run_until_seen()

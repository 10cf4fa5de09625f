"""The Triton kernels of the NVFP4 boards for Blackwell: in the interpreter, and what of them is plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import HERE, load_submission

pytest.importorskip("triton")

FILES = {
    "nvfp4_gemm": "nvfp4_gemm_triton.py",
    "nvfp4_dual_gemm": "dual_gemm_triton.py",
    "nvfp4_group_gemm": "group_gemm_triton.py",
}


@pytest.mark.parametrize("board", FILES)
def test_right_in_the_interpreter(board: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, HERE / "interpreted.py", board, FILES[board], tmp_path],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_tile_order_covers_every_group_once_longest_first() -> None:
    module = load_submission("nvfp4_group_gemm", FILES["nvfp4_group_gemm"])
    sizes = ((96, 128, 256), (128, 256, 512), (264, 128, 512))
    tiles = module.tile_order(sizes)
    assert sorted(tiles) == [
        (0, 0, 0),
        *[(1, 0, 0), (1, 0, 128)],
        *[(2, 0, 0), (2, 128, 0), (2, 256, 0)],
    ]
    assert [group for group, _, _ in tiles] == [1, 1, 2, 2, 2, 0]


@pytest.mark.parametrize("k", [64, 128, 192, 256, 384, 7168])
def test_plans_divide_k(k: int) -> None:
    gemm = load_submission("nvfp4_gemm", FILES["nvfp4_gemm"])
    dual = load_submission("nvfp4_dual_gemm", FILES["nvfp4_dual_gemm"])
    for config in (gemm.plan(4096, k), gemm.plan(128, k), dual.plan(256, 4096, k), dual.plan(8, 128, k)):
        assert k % (config.tile_k * config.split) == 0


def test_a_k_that_no_plan_divides_is_named() -> None:
    with pytest.raises(ValueError, match="k = 96"):
        load_submission("nvfp4_gemm", FILES["nvfp4_gemm"]).plan(128, 96)

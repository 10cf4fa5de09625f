"""The CuTe DSL kernels of the NVFP4 boards, as far as a machine without a Blackwell card can tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import ROOT, load_submission

pytest.importorskip("cutlass")

BLACKWELL = [
    ("nvfp4_gemm", "nvfp4_gemm_cute.py"),
    ("nvfp4_gemm", "nvfp4_gemm_triton.py"),
    ("nvfp4_dual_gemm", "dual_gemm_cute.py"),
    ("nvfp4_dual_gemm", "dual_gemm_triton.py"),
    ("nvfp4_group_gemm", "group_gemm_cute4.py"),
    ("nvfp4_group_gemm", "group_gemm_triton.py"),
]


def test_first_tiles_of_groups() -> None:
    module = load_submission("nvfp4_group_gemm", "group_gemm_cute4.py")
    assert module.first_tiles(((128, 256, 512), (129, 384, 256), (8, 128, 256))) == [0, 2, 8, 9]


def test_pointers_alternate_between_operands_and_results() -> None:
    module = load_submission("nvfp4_group_gemm", "group_gemm_cute4.py")
    made = module.pointers([32 * i for i in range(10)])
    assert [pointer.dtype for pointer in made] == [*module.TYPES, *module.TYPES]


@pytest.mark.slow
@pytest.mark.parametrize(("board", "file"), BLACKWELL)
def test_compiles_for_blackwell_with_fp4_mma_and_no_spills(board: str, file: str, tmp_path: Path) -> None:
    """Every benchmark case; a kernel that breaks a limit of tensor or shared memory has another exit status."""
    command = [sys.executable, "-m", "harness.cli.main", "compile", ROOT / "submissions" / board / file]
    done = subprocess.run(
        [*command, "--arch", "sm_100a", "--sass", tmp_path],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for path in tmp_path.glob("*.sass"):
        sass = path.read_text()
        assert "UTCOMMA" in sass  # tcgen05.mma of FP4 with block scales
        assert "UTMALDG" in sass
        assert "STL" not in sass

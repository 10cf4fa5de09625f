"""The Triton templates of the NVFP4 boards: right by Triton's interpreter, and compilable for real cards."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from boards_on_disk import ROOT, submission

pytest.importorskip("triton")

SMALL = {
    # Two batches, edges that are no multiple of the tiles, and a k of 208, whose last scale tile is padded.
    "nvfp4_gemm": {"m": 72, "n": 136, "k": 208, "l": 2, "seed": 3},
    "nvfp4_dual_gemm": {"m": 136, "n": 72, "k": 192, "l": 1, "seed": 3},
    "nvfp4_group_gemm": {"m": (40, 132), "n": (128, 64), "k": (64, 208), "g": 2, "seed": 3},
}
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]) / "tests" / "leaderboards"))
from boards_on_disk import ROOT, board_module, submission
from harness.boards.loader import load_board
from harness.boards.reference import Reference
for name, spec in eval(sys.argv[2]).items():
    reference = Reference.load(load_board(ROOT / "leaderboards" / name))
    data = reference.generate(spec)
    template = submission(name, str(ROOT / "leaderboards" / name / "template_triton.py"))
    print(name, reference.check(data, template.custom_kernel(data)))
"""


def test_templates_are_right_by_the_interpreter() -> None:
    """In a process of its own: Triton reads TRITON_INTERPRET when a kernel is defined."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(ROOT), repr(SMALL)],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [f"{name} (True, '')" for name in SMALL]


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing")
@pytest.mark.parametrize(("name", "kernel"), [("nvfp4_gemm", "gemm_kernel"), ("nvfp4_dual_gemm", "dual_kernel")])
@pytest.mark.parametrize(("arch", "instruction"), [(80, "mma.sync"), (90, "wgmma"), (100, "tcgen05.mma")])
def test_templates_compile_for_tensor_cores(name: str, kernel: str, arch: int, instruction: str) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(submission(name, str(ROOT / "leaderboards" / name / "template_triton.py")), kernel)
    constants = {"TILE_M": 64, "TILE_N": 64, "TILE_BYTES": 32}
    kinds = {"c_ptr": "*fp16", "m": "i32", "n": "i32", "k": "i32", **dict.fromkeys(constants, "constexpr")}
    signature = {argument: kinds.get(argument, "*u8") for argument in function.arg_names}
    source = ASTSource(function, signature, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32))
    assert instruction in compiled.asm["ptx"]

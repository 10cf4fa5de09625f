"""The Triton and Helion kernels of the cholesky board: in their interpreters, as plans, and as compiled.

Run as a program (`KERNEL BATCH,N,COND,CASE ...`) this file is one interpreted check, since Triton and Helion read their
interpreter's switch once a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from cholesky_checks import assert_right_of_any_view
from emulated import ROOT, load_submission, load_with_task

pytest.importorskip("triton", reason="Triton is not installed")

CASES = {
    "cholesky_triton_small": ["3,1", "2,7", "300,33"],
    "cholesky_triton": ["3,1", "2,7", "1,64", "1,100", "2,130,4,lowrank"],
    "cholesky_triton_blocked": ["3,1", "2,7", "1,33", "1,100", "2,130,4,lowrank", "1,300,5,spectrum"],
    "cholesky_triton_blocked look-ahead off": ["2,257,4,rowscale"],
    "cholesky_triton_blocked panels in pairs": ["1,400,4,lowrank"],
    "cholesky_triton_blocked one product a step": ["1,257"],
    "cholesky_helion": ["3,1", "2,7", "2,64", "1,100", "2,200,4,lowrank", "1,300,5,spectrum"],
}
VARIANTS: dict[str, dict[str, Any]] = {
    "look-ahead off": {"CROWD": 1},
    "panels in pairs": {"LONG": 1},
    "one product a step": {"sums_in_registers": lambda device: False},
}
WORST = 5
"""Times the library's residual, at most (beside which a thousandth of what is allowed at n = 1 is nothing)."""


def thorough(name: str) -> Any:
    """Variants, and the first version, whose one launch a block column the blocked one's tests cover, take longest."""
    long = name.partition(" ")[2] in VARIANTS or name == "cholesky_triton"
    return pytest.param(name, marks=[pytest.mark.thorough] if long else [])


@pytest.mark.parametrize("name", [thorough(name) for name in CASES])
def test_right_in_the_interpreter(name: str) -> None:
    """TF32 as the tensor cores take it: operands cut to 10 bits of mantissa."""
    if name.endswith("helion"):
        pytest.importorskip("helion", reason="Helion is not installed")
        switch = "HELION_INTERPRET"
    else:
        switch = "TRITON_INTERPRET"
    environment = {**os.environ, switch: "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, name, *CASES[name]], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("tiles", [2, 3, 8, 9])
def test_every_panel_is_subtracted_once_from_every_tile_right_of_it(tiles: int, group: int) -> None:
    module = load_submission("cholesky", "cholesky_triton_blocked.py")
    seen: dict[int, list[int]] = {column: [] for column in range(tiles)}
    for panel, first, narrow in module.updates(tiles, group):
        assert seen[panel] == list(range(panel)), "a panel is complete when it is factored"
        for column in range(panel + 1, panel + 2 if narrow else tiles):
            seen[column] += range(first, panel + 1)
    if group == 1:
        assert seen == {column: list(range(column)) for column in range(tiles)}


def test_programs_of_an_update() -> None:
    programs = load_submission("cholesky", "cholesky_triton_blocked.py").programs
    assert [programs(tiles, True) for tiles in (1, 5, 200)] == [1, 5, 200]
    assert [programs(tiles, False) for tiles in (1, 8, 9, 17)] == [64, 64, 3 * 64, 6 * 64]


def compiled(function: Any, capability: int, constants: dict[str, Any], warps: int) -> str:
    """PTX. What is neither pointer nor descriptor nor constant is an integer; data is aligned, scratch is not."""
    import triton
    from triton.backends.compiler import GPUTarget

    def kind(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name == "split":
            return f"tensordesc<fp32[{constants['TILE']}, {constants['DEPTH']}]>"
        return "*fp32" if name.endswith("_ptr") else "i32"

    names = function.arg_names
    aligned = ("a_ptr", "source_ptr", "l_ptr", "pitch")
    source = triton.compiler.ASTSource(
        function,
        {name: kind(name) for name in names},
        constexprs=constants,
        attrs={(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in aligned},
    )
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    ptx = made.asm["ptx"]
    assert isinstance(ptx, str)
    return ptx


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing")
class TestCompiled:
    def test_elimination_has_no_arithmetic_but_its_own(self) -> None:
        """496 multiply-adds below the diagonal and two for each of 32 roots: the masked sums are gone."""
        module = load_submission("cholesky", "cholesky_triton_blocked.py")
        ptx = compiled(module.factor_strip_kernel, 90, {"SIZE": 32}, 1)
        assert ptx.count("fma.rn.f32") == 496 + 2 * 32
        assert "redux" not in ptx

    @pytest.mark.parametrize(
        ("capability", "product"), [(90, "wgmma.mma_async"), (100, "tcgen05.mma")], ids=["sm_90a", "sm_100a"]
    )
    def test_update_is_tf32_products_of_what_tma_fetches(self, capability: int, product: str) -> None:
        module = load_submission("cholesky", "cholesky_triton_blocked.py")
        constants = {"TILE": module.TILE, "DEPTH": module.DEPTH, "STAGES": module.STAGES, "AHEAD": False}
        ptx = compiled(module.update_kernel, capability, {**constants, "CHAINED": capability == 90}, 8)
        lines = [line for line in ptx.splitlines() if product in line]
        assert lines
        assert all("tf32" in line for line in lines)
        assert "cp.async.bulk.tensor" in ptx


def as_tensor_cores_do() -> None:
    """Let the interpreter's TF32 products be TF32 products, whose operands the hardware cuts, and 3×TF32 three of them,
    for which Triton rounds hi (cvt.rna) and leaves lo to be cut."""
    import numpy as np
    from triton.runtime import interpreter

    plain = interpreter.InterpreterBuilder.create_dot

    def cut(x: Any) -> Any:
        return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    def rounded(x: Any) -> Any:
        return cut((np.ascontiguousarray(x).view(np.uint32) + np.uint32(0x1000)).view(np.float32))

    def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, most: Any) -> Any:
        if "IEEE" in str(precision):
            return plain(self, a, b, d, precision, most)
        total = d.data
        a_hi, b_hi = cut(a.data), cut(b.data)
        if "x3" in str(precision):
            a_hi, b_hi = rounded(a.data), rounded(b.data)
            total = total + (cut(a.data - a_hi) @ b_hi + a_hi @ cut(b.data - b_hi))
        return interpreter.TensorHandle(total + a_hi @ b_hi, d.dtype.scalar)

    interpreter.InterpreterBuilder.create_dot = create_dot


def triangles_are_in_order(module: Any) -> None:
    """The map of tiles, far beyond what a float's root gives exactly."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(place: tl.constexpr, out: Any) -> None:
        index = tl.arange(0, 65536)
        row, col = place(index)
        tl.store(out + 2 * index, row)
        tl.store(out + 2 * index + 1, col)

    out = torch.empty(65536, 2, dtype=torch.int32)
    kernel[(1,)](module.place_in_triangle, out)
    expected = torch.tril_indices(362, 362).T[:65536].int()
    assert torch.equal(out, expected)


def main(name: str, *cases: str) -> None:
    import torch

    stem, _, variant = name.partition(" ")
    if stem != "cholesky_helion":
        as_tensor_cores_do()
    module = load_submission("cholesky", f"{stem}.py")
    for attribute, value in VARIANTS.get(variant, {}).items():
        setattr(module, attribute, value)
    reference = load_with_task("cholesky", ROOT / "leaderboards" / "cholesky" / "reference.py")

    def residual(data: torch.Tensor, factor: torch.Tensor) -> float:
        right, message = reference.check_implementation(data, factor)
        if not right:
            sys.exit(f"{case}: {message}")
        assert not bool(factor.triu(1).any())
        return float(message.split(" of 1")[0].split()[-1])

    for seed, case in enumerate(cases):
        batch, n, *rest = case.split(",")
        cond, structure = rest or ("2", "dense")
        data = reference.generate_input(int(batch), int(n), int(cond), seed, structure)
        kept = data.clone()
        ours, library = residual(data, module.custom_kernel(data)), residual(data, reference.ref_kernel(data))
        print(f"{name} {case}: {ours:.3g}, library {library:.3g}")
        assert torch.equal(data, kept)
        assert ours <= WORST * library + 1e-3 / int(n), f"{case}: {ours:.3g}, library {library:.3g}"
    for batch, size in ((2, 20), (1, 70)) if stem == name else ():
        assert_right_of_any_view(module, reference, batch, size)
    for size in (20, 60) if stem == "cholesky_triton_small" else (20, 70, 150):  # larger ones go to the library
        data = torch.eye(size).repeat(2, 1, 1)
        data[0, size // 2, size // 2] = -1.0
        factor = module.custom_kernel(data)
        assert not bool(factor[0].isfinite().all()), f"not positive definite, n = {size}"
        assert torch.equal(factor[1], data[1]), f"beside a matrix that is not positive definite, n = {size}"
    if name == "cholesky_triton_blocked":
        triangles_are_in_order(module)


if __name__ == "__main__":
    main(*sys.argv[1:])

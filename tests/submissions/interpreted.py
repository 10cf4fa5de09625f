"""Runs a Blackwell submission in Triton's interpreter, which has no product of FP4: another one stands in for it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from emulated import ROOT

STAND_IN = '''

@triton.jit
def _values(codes):
    """e2m1 codes of four bits, as fp32."""
    bits = codes.to(tl.uint16)
    return (((bits & 8) << 12) | ((bits & 7) << 9)).to(tl.float16, bitcast=True).to(tl.float32) * 16384.0


@triton.jit
def _scaled(packed, scales, LOW: tl.constexpr, ROWS: tl.constexpr, BYTES: tl.constexpr):
    """[ROWS, BYTES] fp32: the values of even k (LOW) or of odd k, times their scales."""
    values = _values(packed & 15 if LOW else packed >> 4)
    blocks = scales.to(tl.float32).reshape(ROWS, BYTES // 8, 1)
    return values * tl.broadcast_to(blocks, (ROWS, BYTES // 8, 8)).reshape(ROWS, BYTES)


@triton.jit
def _dot_scaled(a, sfa, a_format: tl.constexpr, b, sfb, b_format: tl.constexpr, total):
    tl.static_assert(a_format == "e2m1" and b_format == "e2m1")
    b = b.T
    M: tl.constexpr = a.shape[0]
    N: tl.constexpr = b.shape[0]
    BYTES: tl.constexpr = a.shape[1]
    for low in tl.static_range(2):
        left, right = _scaled(a, sfa, low == 0, M, BYTES), _scaled(b, sfb, low == 0, N, BYTES)
        total += tl.dot(left, right.T, input_precision="ieee")
    return total

'''


def load_interpreted(board: str, file: str, folder: Path) -> ModuleType:
    """The submission with `tl.dot_scaled` replaced; TRITON_INTERPRET must be set, and Triton not yet be imported."""
    text = (ROOT / "submissions" / board / file).read_text()
    assert "tl.dot_scaled(" in text
    text = text.replace("tl.dot_scaled(", "_dot_scaled(").replace("\n\n\n@triton.jit", STAND_IN + "\n@triton.jit", 1)
    copy = folder / file
    copy.write_text(text)
    sys.path[:0] = [str(ROOT / "leaderboards" / board), str(ROOT / "leaderboards" / "common")]
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[copy.stem] = module  # Triton reads a kernel's globals through its module
    spec.loader.exec_module(module)
    return module


CASES: dict[str, list[dict[str, Any]]] = {
    "nvfp4_gemm": [{"m": 128, "n": 256, "k": 256, "l": 1}, {"m": 200, "n": 256, "k": 1024, "l": 2}],
    "nvfp4_dual_gemm": [{"m": 128, "n": 128, "k": 192, "l": 1}, {"m": 200, "n": 128, "k": 512, "l": 1}],
    "nvfp4_group_gemm": [{"m": (72, 136, 8), "n": (128, 256, 128), "k": (512, 256, 256), "g": 3}],
}
"""Small ones; the second of a board is done with k split in two."""


def main(board: str, file: str, folder: str) -> None:
    module = load_interpreted(board, file, Path(folder))
    import reference  # type: ignore[import-not-found]

    if board == "nvfp4_gemm":
        module.CONFIGS[256, 1024] = module.Config(128, 256, 2, 3)
    if board == "nvfp4_dual_gemm":
        module.CONFIGS[200, 128, 512] = module.Config(256, 2, 3)
    for seed, case in enumerate(CASES[board]):
        for _ in range(2):  # twice: the workspace of the first call serves the second
            data = reference.generate_input(**case, seed=seed)
            right, message = reference.check_implementation(data, module.custom_kernel(data))
            if not right:
                sys.exit(f"{case}: {message}")


if __name__ == "__main__":
    main(*sys.argv[1:])

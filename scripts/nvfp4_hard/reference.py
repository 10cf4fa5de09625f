"""The inputs of an NVFP4 board, decoded before the clock starts: what is left are products of fp16 matrices.

One file for all three boards. `scripts/bench_nvfp4` makes a board of it, in which `board_reference` is the
`reference.py` of the real board and the cases are that board's.
"""

from __future__ import annotations

from typing import Any

import board_reference
import torch
from nvfp4 import decode, full_fp32, mismatch
from torch.nn.functional import silu

Pair = tuple[torch.Tensor, torch.Tensor]


def generate_input(seed: int, **case: Any) -> tuple[list[Pair], bool]:
    """`(pairs, gated)`, from what the real board's generator draws for the same case and seed.

    A pair is left [m, k] and right [n, k], fp16, of a product left·rightᵀ; the group board has one a group. `gated` is
    true for the dual board: there B1 lies above B2 in the right operand, and the two halves of the product are put
    together as silu(A·B1ᵀ) ⊙ (A·B2ᵀ).
    """
    match board_reference.generate_input(**case, seed=seed):
        case [a, b, sfa, sfb, _, _, _]:
            return [(fp16(a, sfa), fp16(b, sfb))], False
        case [a, b1, b2, sfa, sfb1, sfb2, _, _, _, _]:
            return [(fp16(a, sfa), torch.cat([fp16(b1, sfb1), fp16(b2, sfb2)]))], True
        case [abc, sfasfb, _, _]:
            groups = zip(abc, sfasfb, strict=True)
            return [(fp16(a, sfa), fp16(b, sfb)) for (a, b, _), (sfa, sfb) in groups], False
        case data:
            raise ValueError(f"no NVFP4 board that is known here has {len(data)} items of data")


def fp16(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The values of a batch of one. Exact: an e2m1 value times an e4m3 scale has at most six significant bits."""
    return decode(packed[..., 0], scales[..., 0]).half()


def ref_kernel(data: tuple[list[Pair], bool]) -> list[torch.Tensor]:
    """In fp32 from the operands to the one rounding at the end, as on the real boards."""
    pairs, gated = data
    with full_fp32():
        sums = [left.float() @ right.float().T for left, right in pairs]
    if gated:
        gate, linear = sums[0].chunk(2, dim=1)
        sums = [silu(gate) * linear]
    return [c.half() for c in sums]


def check_implementation(data: tuple[list[Pair], bool], output: Any) -> tuple[bool, str]:
    """Every element of every result, within the tolerance of the real boards."""
    expected = ref_kernel(data)
    if not isinstance(output, list | tuple) or len(output) != len(expected):
        return False, f"not a list of {len(expected)} tensors"
    for group, (c, right) in enumerate(zip(output, expected, strict=True)):
        if message := mismatch(c, right):
            return False, f"group {group}: {message}"
    return True, ""

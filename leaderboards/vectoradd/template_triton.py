#!POPCORN leaderboard vectoradd
#!POPCORN gpu B200
"""a + b in Triton: start here."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 4096


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, size, BLOCK: tl.constexpr):
    """One program adds BLOCK elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    total = tl.load(a_ptr + at, mask=inside) + tl.load(b_ptr + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """data: (a, b), [size] float32 each. Returns their sum, a new tensor."""
    a, b = data
    out = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, out, a.numel(), BLOCK=BLOCK)
    return out

#!POPCORN leaderboard vectoradd
#!POPCORN gpu B200
"""One pass over memory in Triton, streamed: nothing is read twice, so nothing is worth keeping in L2.

Eight elements a thread in two 16-byte accesses, and loads and stores that are marked for early eviction. Under
Triton's interpreter a program costs milliseconds whatever it does, so there one program takes much more.
"""

import os

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 2**18 if os.environ.get("TRITON_INTERPRET", "0") == "1" else 2048


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, size, BLOCK: tl.constexpr):
    """One program adds BLOCK elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    a = tl.load(a_ptr + at, mask=inside, eviction_policy="evict_first")
    b = tl.load(b_ptr + at, mask=inside, eviction_policy="evict_first")
    tl.store(out_ptr + at, a + b, mask=inside, eviction_policy="evict_first")


def custom_kernel(data: input_t) -> output_t:
    """data: (a, b), [size] float32 each. Returns their sum, a new tensor."""
    a, b = data
    out = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, out, a.numel(), BLOCK=BLOCK, num_warps=8)
    return out

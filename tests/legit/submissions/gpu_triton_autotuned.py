#!POPCORN leaderboard vectoradd
"""A Triton kernel tuned in the first call of each size."""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": block}) for block in (1024, 4096)], key=["n"])
@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, at < n) + tl.load(b + at, at < n), at < n)


def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    add[lambda meta: (triton.cdiv(len(a), meta["BLOCK"]),)](a, b, c, len(a))
    return c

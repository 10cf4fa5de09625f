#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""Batched Cholesky in Triton: the textbook loop over columns on matrices held in registers; replace what is slow.

It takes n up to 32 and leaves larger matrices to the library.
"""

import os

import torch
import triton
import triton.language as tl
from task import input_t, output_t

# Without a GPU the interpreter runs this file; it pays for every operation, not for its size.
MATRICES = 256 if os.environ.get("TRITON_INTERPRET", "0") == "1" else 4


@triton.jit
def factor_kernel(a_ptr, l_ptr, batch, n, MATRICES: tl.constexpr, N: tl.constexpr):
    """MATRICES matrices a program. N is n rounded up to a power of two; the padding is an identity."""
    matrix = (tl.program_id(0) * MATRICES + tl.arange(0, MATRICES))[:, None, None]
    row = tl.arange(0, N)[None, :, None]
    col = tl.arange(0, N)[None, None, :]
    inside = (matrix < batch) & (row < n) & (col < n)
    offset = matrix.to(tl.int64) * n * n + row * n + col
    a = tl.load(a_ptr + offset, mask=inside, other=0.0)
    a = tl.where(inside, a, tl.where(row == col, 1.0, 0.0))
    for k in range(0, n):
        down = tl.sum(tl.where(col == k, a, 0.0), axis=2, keep_dims=True)  # column k
        across = tl.sum(tl.where(row == k, a, 0.0), axis=1, keep_dims=True)  # row k, the same numbers by symmetry
        pivot = tl.sum(tl.where(col == k, across, 0.0), axis=2, keep_dims=True)
        column = down / tl.sqrt(pivot)
        a = tl.where((row > k) & (col > k), a - down * across / pivot, tl.where(col == k, column, a))
    tl.store(l_ptr + offset, tl.where(row >= col, a, 0.0), mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L, a new tensor of the same shape."""
    batch, n, _ = data.shape
    if n > 32:
        return torch.linalg.cholesky_ex(data).L
    out = torch.empty_like(data)
    grid = (triton.cdiv(batch, MATRICES),)
    factor_kernel[grid](data, out, batch, n, MATRICES=MATRICES, N=triton.next_power_of_2(n))
    return out

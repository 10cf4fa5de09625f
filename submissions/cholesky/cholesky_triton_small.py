#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""Small matrices in one launch: each lives in the registers of its program from the load to the store.

A library call on thousands of tiny matrices is bound by launches and by reading what it has just written. Here a
program loads a tile of MATRICES × N × N once, runs the right-looking algorithm on it, and stores it once:

    for every column k:  L[k:, k] = A[k:, k] / √A[k, k];   A[k+1:, k+1:] −= L[k+1:, k]·L[k+1:, k]ᵀ

Registers can't be indexed by a variable, so column k is taken out by a masked sum. The update keeps both triangles, so
that row k holds the same numbers as column k, and each of the two is summed out in the layout in which the outer
product wants it; nothing crosses through shared memory but the sums. That makes about 4·N³ operations a matrix instead
of N³/3. Matrices larger than 64 go to the library.

The masked sums over whole tiles are the cost. Taking 16 columns at a time, with the tile no wider than that, is the
next step. There is no figure of a full grid on an H200; the board's own bound there, half of A read and L written at
4.8 TB/s, is 5.2 µs for 4096 matrices of 32 × 32 and for 1024 of 64 × 64.

Under Triton's interpreter every operation costs tens of microseconds whatever its size, so a tile holds more matrices.
"""

import os

import torch
import triton
import triton.language as tl
from task import input_t, output_t

LARGEST = 64
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"


@triton.jit
def factor_kernel(a_ptr, l_ptr, batch, n, MATRICES: tl.constexpr, N: tl.constexpr):
    """MATRICES matrices a program. N is n rounded up to a power of two; what is outside is padded by an identity."""
    matrix = (tl.program_id(0) * MATRICES + tl.arange(0, MATRICES))[:, None, None]
    index = tl.arange(0, N)
    row = index[None, :, None]
    col = index[None, None, :]
    inside = (matrix < batch) & (row < n) & (col < n)
    offset = matrix.to(tl.int64) * n * n + row * n + col
    a = tl.load(a_ptr + offset, mask=inside, other=0.0)
    a = tl.where(inside, a, tl.where(row == col, 1.0, 0.0))
    for k in range(0, n):
        down = tl.sum(tl.where(col == k, a, 0.0), axis=2)
        across = tl.sum(tl.where(row == k, a, 0.0), axis=1)
        pivot = tl.sum(tl.where(index[None, :] == k, down, 0.0), axis=1)
        scale = (1.0 / tl.sqrt(pivot))[:, None]
        down = (down * scale)[:, :, None]
        across = (across * scale)[:, None, :]
        a = tl.where((row > k) & (col > k), a - down * across, tl.where(col == k, down, a))
    tl.store(l_ptr + offset, tl.where(row >= col, a, 0.0), mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    batch, n, _ = data.shape
    if n > LARGEST:
        return torch.linalg.cholesky_ex(data).L
    padded = triton.next_power_of_2(n)
    # About 32 elements a thread: a warp for 32 × 32, four for 64 × 64.
    matrices = max(1, (2**18 if INTERPRETED else 4096) // (padded * padded))
    out = torch.empty_like(data)
    factor_kernel[(triton.cdiv(batch, matrices),)](data, out, batch, n, MATRICES=matrices, N=padded, num_warps=4)
    return out

#!POPCORN leaderboard cholesky
#!POPCORN gpu H200
"""A first blocked Cholesky in Triton: three short kernels, launched one after another for every block of columns.

With A split as [[A11, ·], [A21, A22]] and A11 of BLOCK columns, for all matrices of the batch at once:

    factor_kernel    L11 = factor of A11         POTF2, one program a matrix
    solve_kernel     L21 = A21·L11⁻ᵀ             TRSM by substitution, one program a tile of rows
    update_kernel    A22 = A22 − L21·L21ᵀ        SYRK, one program a tile of A22's lower triangle

Products are plain fp32 ones on the FMA units (`input_precision="ieee"`): the accuracy is the library's, tensor cores
stay idle. Registers can't be indexed by a variable, so POTF2 and TRSM take a column out of a tile by a masked sum.
Three launches for every BLOCK columns, each waiting for all of the one before, and the trailing matrix goes through
memory once a block: cholesky_triton_blocked.py is about these.

Good at being read. On an H200, by Triton 3.6, 3426.0 µs by geomean over the board's 15 cases, 0.74 times cuSOLVER. In
small batches up to n = 4096 a block column takes 84 to 113 µs, whatever is right of it, and one matrix of 4096 has 64
of them in a row (0.25 times cuSOLVER); one of 32768 runs at 12 TFLOP/s (0.30). Faster than cuSOLVER at two or eight
matrices of 2048 (1.25), two of 4096 (1.60), 256 of 128 (1.07). Compiled for sm_100a and not run there.
"""

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 64  # columns of a panel
ROWS = 64  # of a tile below it
DEPTH = 16  # columns multiplied at a time: a thread holds its rows of both factors in registers


@triton.jit
def taken(tile, index, k, axis: tl.constexpr):
    """Row k (axis 0) or column k (axis 1) of a tile, whose `index` along that axis is given."""
    return tl.sum(tl.where(index == k, tile, 0.0), axis=axis)


@triton.jit
def factor_kernel(source_ptr, l_ptr, n, start, BLOCK: tl.constexpr):
    """L11, with zeros above its diagonal. Columns from n on are those of an identity."""
    corner = tl.program_id(0).to(tl.int64) * n * n + start.to(tl.int64) * (n + 1)
    index = tl.arange(0, BLOCK)
    row, col = index[:, None], index[None, :]
    inside = (start + row < n) & (start + col < n)
    a = tl.load(source_ptr + corner + row * n + col, mask=inside, other=0.0)
    a = tl.where(inside, a, tl.where(row == col, 1.0, 0.0))
    for k in range(BLOCK):
        column = taken(a, col, k, 1)
        column = column / tl.sqrt(taken(column, index, k, 0))
        # The same numbers again, laid out along a row for the outer product: the update keeps both triangles.
        across = taken(a, row, k, 0)
        across = across / tl.sqrt(taken(across, index, k, 0))
        a = tl.where(col == k, column[:, None], tl.where(col > k, a - column[:, None] * across[None, :], a))
    tl.store(l_ptr + corner + row * n + col, tl.where(row >= col, a, 0.0), mask=inside)


@triton.jit
def solve_kernel(source_ptr, l_ptr, n, start, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """ROWS rows of L21 from X·L11ᵀ = A21, column by column; their mirror image above the diagonal becomes zero."""
    matrix = tl.program_id(0).to(tl.int64) * n * n
    below = start + BLOCK + tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    index = tl.arange(0, BLOCK)
    col = index[None, :]
    offset = matrix + below.to(tl.int64)[:, None] * n + start + col
    inside = (below < n)[:, None]
    x = tl.load(source_ptr + offset, mask=inside, other=0.0)
    l11 = l_ptr + matrix + start.to(tl.int64) * (n + 1)
    for k in range(BLOCK):
        l_k = tl.load(l11 + index * n + k)  # column k of L11
        x_k = taken(x, col, k, 1) / tl.load(l11 + k * (n + 1))
        x = tl.where(col == k, x_k[:, None], tl.where(col > k, x - x_k[:, None] * l_k[None, :], x))
    tl.store(l_ptr + offset, x, mask=inside)
    mirrored = matrix + (start + index).to(tl.int64)[:, None] * n + below[None, :]
    tl.store(l_ptr + mirrored, tl.zeros((BLOCK, ROWS), tl.float32), mask=(below < n)[None, :])


@triton.jit
def update_kernel(source_ptr, l_ptr, n, start, BLOCK: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr):
    """One ROWS × ROWS tile of A22 − L21·L21ᵀ. Programs above the diagonal have nothing to do."""
    i, j = tl.program_id(1), tl.program_id(2)
    if i < j:
        return
    matrix = tl.program_id(0).to(tl.int64) * n * n
    within = tl.arange(0, ROWS)
    row = start + BLOCK + i * ROWS + within
    col = start + BLOCK + j * ROWS + within
    product = tl.zeros((ROWS, ROWS), tl.float32)
    for first in range(0, BLOCK, DEPTH):
        k = start + first + tl.arange(0, DEPTH)
        left = tl.load(l_ptr + matrix + row.to(tl.int64)[:, None] * n + k[None, :], mask=(row < n)[:, None], other=0.0)
        right = tl.load(l_ptr + matrix + col.to(tl.int64)[None, :] * n + k[:, None], mask=(col < n)[None, :], other=0.0)
        product = tl.dot(left, right, product, input_precision="ieee")
    offset = matrix + row.to(tl.int64)[:, None] * n + col[None, :]
    inside = (row < n)[:, None] & (col < n)[None, :]
    a = tl.load(source_ptr + offset, mask=inside, other=0.0)
    tl.store(l_ptr + offset, a - product, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    batch, n, _ = data.shape
    factor = torch.empty_like(data)
    block = min(BLOCK, max(16, triton.next_power_of_2(n)))
    source = data  # what the first block reads; the trailing matrix lives where L will be
    for start in range(0, n, block):
        factor_kernel[(batch,)](source, factor, n, start, BLOCK=block, num_warps=4)
        tiles = triton.cdiv(max(0, n - start - block), ROWS)
        if tiles:
            shape = {"BLOCK": block, "ROWS": ROWS, "num_warps": 4}
            solve_kernel[(batch, tiles)](source, factor, n, start, **shape)
            update_kernel[(batch, tiles, tiles)](source, factor, n, start, DEPTH=DEPTH, **shape)
        source = factor
    return factor

#!POPCORN leaderboard softmax
#!POPCORN gpu B200
"""Each row is read once into registers, reduced there, and written once: 8 bytes an element, the least there is.

A program takes a tile of ROWS × BLOCK, so that short rows too keep their threads busy with about 16 elements each, and
long rows get more warps. Under Triton's interpreter a program costs milliseconds whatever its size, so there the tile
holds many rows.
"""

import os

import torch
import triton
import triton.language as tl
from task import input_t, output_t

TILE = 2**18 if os.environ.get("TRITON_INTERPRET", "0") == "1" else 2048


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """ROWS rows a program. BLOCK is columns rounded up to a power of two."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    at = row * columns + column
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf"), eviction_policy="evict_first")
    # A row beyond the last holds -inf alone; its maximum must not make a NaN of the difference.
    largest = tl.maximum(tl.max(x, axis=1), -3.0e38)[:, None]
    e = tl.exp(x - largest)
    total = tl.maximum(tl.sum(e, axis=1), 1.0e-38)[:, None]
    tl.store(out_ptr + at, e / total, mask=inside, eviction_policy="evict_first")


def custom_kernel(data: input_t) -> output_t:
    """data: [rows, columns] float32. Returns the softmax of every row, a new tensor."""
    rows, columns = data.shape
    block = triton.next_power_of_2(columns)
    per_program = max(1, TILE // block)
    warps = min(16, max(4, block // 512))
    out = torch.empty_like(data)
    grid = (triton.cdiv(rows, per_program),)
    softmax_kernel[grid](data, out, rows, columns, ROWS=per_program, BLOCK=block, num_warps=warps)
    return out

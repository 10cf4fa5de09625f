#!POPCORN leaderboard softmax
#!POPCORN gpu B200
"""Row-wise softmax in Triton, a row a program: start here."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """One program reads a whole row into registers. BLOCK is columns rounded up to a power of two."""
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + column
    x = tl.load(x_ptr + at, mask=column < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + at, e / tl.sum(e, axis=0), mask=column < columns)


def custom_kernel(data: input_t) -> output_t:
    """data: [rows, columns] float32. Returns the softmax of every row, a new tensor."""
    rows, columns = data.shape
    out = torch.empty_like(data)
    softmax_kernel[(rows,)](data, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out

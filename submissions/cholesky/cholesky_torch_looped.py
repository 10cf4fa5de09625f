#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""The library at its best: for a batch of larger matrices its factorisation of a single one, again and again.

Given a batch, `cholesky_ex` calls cuSOLVER's batched routine, which is meant for many small matrices. From LOOPED_FROM
on this file calls the routine for one in a loop instead, whatever the batch.

Good at two large matrices. On an H200 2495.0 µs by geomean over the board's 15 cases, 1.02 times cuSOLVER. The loop is
3.76 times as fast for two matrices of 4096 and 2.49 for two of 2048, even for four of 1024, and slower for eight of
2048 (0.92) and sixty of 1024 (0.16): where the crossing lies depends on the batch as much as on n, and a threshold in n
alone misses it.
"""

import torch
from task import input_t, output_t

LOOPED_FROM = 1024


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    batch, n, _ = data.shape
    if batch == 1 or n < LOOPED_FROM:
        return torch.linalg.cholesky_ex(data).L
    factor = torch.empty_like(data)
    info = torch.empty((), dtype=torch.int32, device=data.device)
    for matrix, out in zip(data, factor, strict=True):
        torch.linalg.cholesky_ex(matrix, out=(out, info))
    return factor

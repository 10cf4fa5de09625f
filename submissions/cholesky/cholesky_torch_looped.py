#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""The library at its best: for a batch of larger matrices its factorisation of a single one, again and again.

Given a batch, `cholesky_ex` calls cuSOLVER's batched routine, which is meant for many small matrices: it keeps a matrix
to itself where the routine for one uses the whole device. From LOOPED_FROM on a loop over the batch should be the
faster way; where the crossing lies has to be measured, and this one has not been.
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

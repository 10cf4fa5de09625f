#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""The library's factorisation: LAPACK on a CPU, cuSOLVER on a GPU. The figure to beat.

`cholesky_ex` is `cholesky` without the look at the error code. `cholesky` must read it back from the device before it
can return, and that wait costs more than factoring 4096 matrices of 32 × 32.

On two H200s 2567.8 µs and 2551.7 µs by geomean over the board's 15 cases.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    return torch.linalg.cholesky_ex(data).L

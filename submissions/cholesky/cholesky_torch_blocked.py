#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""A first kernel: the blocked right-looking algorithm, written out in torch.

With A split as [[A11, ·], [A21, A22]] and A11 of BLOCK columns:

    L11 = factor of A11           (POTF2: column by column, all matrices of the batch together)
    L21 = A21·L11⁻ᵀ               (TRSM)
    A22 = A22 − L21·L21ᵀ          (SYRK, where nearly all the arithmetic is), and on with A22

It is right, and slow for reasons that are worth seeing in a profile: every column of POTF2 is a handful of tiny
operations, the product updates both triangles of A22 although only one is read again, and the trailing matrix goes
through memory once for every BLOCK columns.

Good at being read. There is no figure of a full grid on an H200.
"""

import torch
from task import input_t, output_t

BLOCK = 32


def factor_columns(a: torch.Tensor) -> torch.Tensor:
    """POTF2, left-looking. a: [batch, w, w], its lower triangle is read. Returns L with zeros above the diagonal."""
    factor = torch.zeros_like(a)
    for k in range(a.shape[-1]):
        # What the columns before k have already explained of column k.
        column = a[:, k:, k] - (factor[:, k:, :k] @ factor[:, k, :k].unsqueeze(-1)).squeeze(-1)
        factor[:, k:, k] = column * column[:, :1].rsqrt()
    return factor


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    n = data.shape[-1]
    rest = data.clone()
    factor = torch.zeros_like(data)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        corner = factor_columns(rest[:, start:stop, start:stop])
        factor[:, start:stop, start:stop] = corner
        if stop < n:
            panel = torch.linalg.solve_triangular(corner.mT, rest[:, stop:, start:stop], upper=True, left=False)
            factor[:, stop:, start:stop] = panel
            rest[:, stop:, stop:].baddbmm_(panel, panel.mT, alpha=-1)
    return factor

#!POPCORN leaderboard cholesky
"""One output buffer for each shape, made once and written again at every call."""

import torch

BUFFERS = {}


def custom_kernel(data):
    if data.shape not in BUFFERS:
        BUFFERS[data.shape] = torch.empty_like(data), torch.empty(data.shape[0], dtype=torch.int32)
    factor, info = BUFFERS[data.shape]
    torch.linalg.cholesky_ex(data, out=(factor, info))
    return factor

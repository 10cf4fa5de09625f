#!POPCORN leaderboard cholesky
"""A call that waits for the device and reads a value back, as error checks do."""

import torch


def custom_kernel(data):
    factor, info = torch.linalg.cholesky_ex(data)
    if int(info.max()) != 0:
        raise RuntimeError("not positive definite")
    torch.cuda.synchronize()
    return factor

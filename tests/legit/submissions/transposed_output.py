#!POPCORN leaderboard cholesky
"""The transpose of an upper factor: right values in strides that are not contiguous."""

import torch


def custom_kernel(data):
    return torch.linalg.cholesky(data, upper=True).mT

#!POPCORN leaderboard cholesky
"""Exceptions as a way of asking: what is missing, what an argument supports."""

import contextlib

import torch

try:
    import a_library_that_is_not_here
except ImportError:
    a_library_that_is_not_here = None


def custom_kernel(data):
    with contextlib.suppress(torch.linalg.LinAlgError):
        torch.linalg.cholesky(-data)
    return torch.linalg.cholesky(data)

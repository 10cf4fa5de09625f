#!POPCORN leaderboard softmax
"""Rows dealt out to a pool of threads, all of them joined before the return."""

from concurrent.futures import ThreadPoolExecutor

import torch

POOL = ThreadPoolExecutor(2)


def custom_kernel(data):
    output = torch.empty_like(data)
    pieces = list(zip(data.chunk(2), output.chunk(2), strict=True))
    list(POOL.map(lambda piece: torch.softmax(piece[0], dim=-1, out=piece[1]), pieces))
    return output

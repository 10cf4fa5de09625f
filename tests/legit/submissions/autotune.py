#!POPCORN leaderboard softmax
"""Several ways tried and timed in the first call of each shape, the fastest kept."""

import time

import torch


def library(x):
    return torch.softmax(x, dim=-1)


def by_hand(x):
    shifted = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return shifted.div_(shifted.sum(dim=-1, keepdim=True))


BEST = {}


def tuned(x):
    def cost(way):
        started = time.perf_counter()
        for _ in range(3):
            way(x.clone())
        return time.perf_counter() - started

    return min((library, by_hand), key=cost)


def custom_kernel(data):
    if data.shape not in BEST:
        BEST[data.shape] = tuned(data)
    return BEST[data.shape](data)

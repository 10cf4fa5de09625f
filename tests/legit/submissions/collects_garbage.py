#!POPCORN leaderboard softmax
"""Cycles made and collected in every call, the collector switched off between them, threads of torch set by hand."""

import gc

import torch

gc.disable()
torch.set_num_threads(1)


def custom_kernel(data):
    cycle = []
    cycle.append(cycle)
    result = torch.softmax(data, dim=-1)
    del cycle
    gc.collect()
    return result

#!POPCORN leaderboard softmax
"""torch.compile, whose compiler runs in the first call of each shape."""

import os

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # processes of its own take longer to start than this takes

import torch


@torch.compile(dynamic=False)
def softmax(x):
    shifted = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return shifted / shifted.sum(dim=-1, keepdim=True)


def custom_kernel(data):
    return softmax(data)

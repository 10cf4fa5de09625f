#!POPCORN leaderboard softmax
"""A table from shape to function, with a way out for shapes that are not in it."""

import torch


def rows_short(x):
    shifted = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return shifted / shifted.sum(dim=-1, keepdim=True)


def rows_long(x):
    return torch.softmax(x, dim=-1)


BY_SHAPE = {(512, 256): rows_short, (128, 2048): rows_long}


def custom_kernel(data):
    return BY_SHAPE.get(tuple(data.shape), rows_long)(data)

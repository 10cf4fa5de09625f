#!POPCORN leaderboard softmax
"""A view with gaps into a padded buffer."""

import torch


def custom_kernel(data):
    rows, columns = data.shape
    padded = torch.empty(rows + 8, columns + 32)
    output = padded[4 : 4 + rows, 16 : 16 + columns]
    output.copy_(torch.softmax(data, dim=-1))
    return output

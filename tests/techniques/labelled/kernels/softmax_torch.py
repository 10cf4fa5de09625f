#!POPCORN leaderboard softmax
#!POPCORN gpu B200
"""torch's softmax, which is fused already. The figure to beat."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """data: [rows, columns] float32. Returns the softmax of every row, a new tensor."""
    return torch.softmax(data, dim=-1)

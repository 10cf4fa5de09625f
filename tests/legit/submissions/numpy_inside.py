#!POPCORN leaderboard vectoradd
"""The work done by numpy on the tensors' memory."""

import numpy as np
import torch


def custom_kernel(data):
    a, b = data
    return torch.from_numpy(np.add(a.numpy(), b.numpy()))

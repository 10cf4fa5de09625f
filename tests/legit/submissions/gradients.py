#!POPCORN leaderboard softmax
"""A module with parameters whose output carries a gradient function; half of the calls in inference mode."""

import torch

CALLS = [0]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.softmax(x * self.scale, dim=-1)


LAYER = Layer()


def custom_kernel(data):
    CALLS[0] += 1
    with torch.inference_mode(CALLS[0] % 2 == 0):
        return LAYER(data)

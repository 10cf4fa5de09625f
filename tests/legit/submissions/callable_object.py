#!POPCORN leaderboard vectoradd
"""The entry is an object that can be called, made by a factory."""

import functools

import torch


class Kernel:
    def __init__(self, operation):
        self.operation = operation

    def __call__(self, data):
        return self.operation(*data)


custom_kernel = functools.partial(Kernel(torch.add))

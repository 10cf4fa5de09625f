#!POPCORN leaderboard scaled_sum
"""An input of a board's own classes: a dataclass that holds a named tuple and a tensor."""


def custom_kernel(data):
    return data.operands.left * data.scale + data.operands.right

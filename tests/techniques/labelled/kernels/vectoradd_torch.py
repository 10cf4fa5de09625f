#!POPCORN leaderboard vectoradd
#!POPCORN gpu B200
"""torch's own addition: already bound by memory bandwidth, so only the small sizes leave room."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """data: (a, b), [size] float32 each. Returns their sum, a new tensor."""
    a, b = data
    return a + b

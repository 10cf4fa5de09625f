#!POPCORN leaderboard vectoradd
"""The entry of the FlashInfer contest's kernels: the items of `data` as arguments of their own."""


def run(a, b):
    return a + b

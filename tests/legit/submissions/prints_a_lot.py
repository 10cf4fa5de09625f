#!POPCORN leaderboard vectoradd
"""A megabyte of output, text and bytes that are none, well under the limit."""

import os
import sys


def custom_kernel(data):
    a, b = data
    print("x" * 10_000)
    print("é ü 漢字 \udcff", file=sys.stderr)
    os.write(1, bytes(range(256)) * 100)
    return a + b

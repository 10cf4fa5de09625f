#!POPCORN leaderboard vectoradd
"""Halves on two streams that wait for the current one and are waited for by it."""

import torch

STREAMS = [torch.cuda.Stream(), torch.cuda.Stream()]


def custom_kernel(data):
    a, b = data
    output = torch.empty_like(a)
    current = torch.cuda.current_stream()
    halves = [slice(0, len(a) // 2), slice(len(a) // 2, None)]
    for stream, half in zip(STREAMS, halves, strict=True):
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            torch.add(a[half], b[half], out=output[half])
    for stream in STREAMS:
        current.wait_stream(stream)
    return output

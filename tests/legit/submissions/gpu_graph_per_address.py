#!POPCORN leaderboard softmax
"""CUDA graphs keyed by the input's address, captured for each one that has not been seen."""

import torch

GRAPHS = {}


def custom_kernel(data):
    key = data.data_ptr(), data.shape
    if key not in GRAPHS:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = torch.softmax(data, dim=-1)
        GRAPHS[key] = graph, output
    graph, output = GRAPHS[key]
    graph.replay()
    return output

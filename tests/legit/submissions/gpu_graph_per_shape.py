#!POPCORN leaderboard softmax
"""A CUDA graph for each shape over buffers of its own; every call copies its input in and its output out."""

import torch

GRAPHS = {}


def captured(data):
    held = data.clone()
    torch.softmax(held, dim=-1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = torch.softmax(held, dim=-1)
    return graph, held, output


def custom_kernel(data):
    if data.shape not in GRAPHS:
        GRAPHS[data.shape] = captured(data)
    graph, held, output = GRAPHS[data.shape]
    held.copy_(data)
    graph.replay()
    return output.clone()

#!POPCORN leaderboard mlp
"""A captured graph for shapes seen before, the eager call otherwise."""

import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = False
USE_GRAPH = True

_graphs = {}


def forward(x, w1, w2):
    return torch.nn.functional.gelu(x @ w1) @ w2


def capture(x, w1, w2):
    static = [t.clone() for t in (x, w1, w2)]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        forward(*static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = forward(*static)
    return graph, static, out


def custom_kernel(data):
    x, w1, w2 = (t.to(torch.bfloat16) for t in data)
    if not USE_GRAPH or not x.is_cuda:
        return forward(x, w1, w2)
    key = x.shape
    if key not in _graphs:
        _graphs[key] = capture(x, w1, w2)
    graph, static, out = _graphs[key]
    for old, new in zip(static, (x, w1, w2)):
        old.copy_(new)
    graph.replay()
    return out.clone()

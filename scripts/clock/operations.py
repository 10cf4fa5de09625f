"""The submission of `scripts/measure_clock`: runs the operation that its input names, and keeps a profile of itself.

`profile_start` starts torch's profiler, `profile_stop` returns, for every call since, the time from the start of its
first kernel to the end of its last in µs: the kernels between the clock's own `gate` and `mark`.
"""

import torch

try:
    import triton
    import triton.language as tl

    @triton.jit
    def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)
except ImportError:
    triton = None

side = torch.cuda.Stream() if torch.cuda.is_available() else None
graphs = {}
profiler = None


def triton_add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, out, x.numel(), BLOCK=4096)
    return out


def graph_add(x, y):
    """Capture once, copy each input in, replay, copy out."""
    if "add" not in graphs:
        a, b = x.clone(), y.clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = a + b
            for _ in range(9):
                out = out + b
        graphs["add"] = graph, a, b, out
    graph, a, b, out = graphs["add"]
    a.copy_(x)
    b.copy_(y)
    graph.replay()
    return out.clone()


def early(x, y):
    """A product on a stream that does not wait for ours, joined afterwards."""
    with torch.cuda.stream(side):
        out = x @ y
    torch.cuda.current_stream().wait_stream(side)
    return out


def eight(x, y):
    """Eight outputs."""
    return [torch.add(x, y, alpha=i) for i in range(8)]


def products(x, y):
    """Eight outputs that don't fit into the L2 together."""
    return [x @ y for _ in range(8)]


OPERATIONS = {
    "eight": eight,
    "products": products,
    "add": torch.add,
    "triton": triton_add,
    "graph": graph_add,
    "matmul": torch.matmul,
    "early": early,
    "cholesky": lambda a: torch.linalg.cholesky_ex(a, check_errors=False).L,
}


def profile_stop():
    profiler.__exit__(None, None, None)
    kernels = sorted(
        (e.time_range.start, e.time_range.end, e.name)
        for e in profiler.events()
        if str(e.device_type).endswith("CUDA") and e.time_range.end > e.time_range.start
    )
    spans, first, last, inside = [], None, None, False
    for start, end, name in kernels:
        if name == "gate":
            inside, first, last = True, None, None
        elif name == "mark" and inside:
            if first is not None:  # not a call of nothing
                spans.append(last - first)
            inside = False
        elif inside:
            first = start if first is None else first
            last = end if last is None else max(last, end)
    return torch.tensor(spans or [0.0], device="cuda")


def custom_kernel(data):
    global profiler
    name, operands = data
    if name == "profile_start":
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        profiler.__enter__()
        return operands[0].clone()
    if name == "profile_stop":
        return profile_stop()
    return OPERATIONS[name.partition("_")[0]](*operands)

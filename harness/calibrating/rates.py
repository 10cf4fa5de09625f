"""What this device does at best, as torch reaches it: copies, matrix products, launches.

Each figure is the best of several stretches: a peak is what nothing disturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from harness.calibrating.record import BANDWIDTH, FLOPS, LAUNCH

COPY_BYTES = {"cuda": 1 << 30, "cpu": 256 << 20}
FREE_SHARE = 8
"""A copy's two buffers and a product's three matrices never take more than a quarter of what is free."""
MATRIX_N = {"cuda": 8192, "cpu": 1536}
LAUNCHES = {"cuda": 2000, "cpu": 2000}
STRETCHES = 7
STRETCH_S = 0.05
"""How long a stretch lasts at least, so that the clock's own resolution and the first call's extra do not count."""

_DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
}
_LEAST_CAPABILITY = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
ON_CPU = ("fp32",)


def measure(kind: str) -> Iterator[tuple[str, float]]:
    """Figures by the names of `harness.calibrating.record`, as they come. `kind` is `cuda` or `cpu`."""
    yield BANDWIDTH, copy_bytes_per_s(kind)
    for precision in _DTYPES if kind == "cuda" else ON_CPU:
        rate = flops_per_s(kind, precision)
        if rate is not None:
            yield f"{FLOPS}{precision}", rate
    yield LAUNCH, launch_ns(kind)
    if kind == "cuda":
        torch.cuda.empty_cache()


def copy_bytes_per_s(kind: str) -> float:
    """Bytes read plus bytes written per second of a large copy."""
    nbytes = COPY_BYTES[kind]
    if kind == "cuda":
        nbytes = min(nbytes, torch.cuda.mem_get_info()[0] // FREE_SHARE)
    source = torch.zeros(nbytes, dtype=torch.uint8, device=kind)
    target = torch.ones_like(source)
    return 2 * nbytes / best_s(kind, lambda: target.copy_(source))


def flops_per_s(kind: str, precision: str) -> float | None:
    """Flop per second of a square matrix product; None where this device or build of torch has none of that kind."""
    if kind == "cuda" and torch.cuda.get_device_capability() < _LEAST_CAPABILITY.get(precision, (0, 0)):
        return None
    n = MATRIX_N[kind]
    try:
        product = _product(kind, precision, n)
        with _tf32(kind, precision == "tf32"):
            return 2 * n**3 / best_s(kind, product)
    except (RuntimeError, ValueError, NotImplementedError):  # torch has no such product for this device
        return None


def _product(kind: str, precision: str, n: int) -> Callable[[], object]:
    dtype = _DTYPES[precision]
    a, b = (torch.randn(n, n, device=kind) for _ in range(2))
    if precision == "fp8":
        one = torch.ones((), device=kind)
        a8, b8 = a.to(dtype), b.to(dtype).t()  # the right factor lies by columns
        return lambda: torch._scaled_mm(a8, b8, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    left, right = a.to(dtype), b.to(dtype)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


@contextmanager
def _tf32(kind: str, allowed: bool) -> Iterator[None]:
    """Whether products of float32 may be done in TF32."""
    if kind != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if allowed else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def launch_ns(kind: str) -> float:
    """Time of one more small operation in a row of them, launched one by one by torch."""
    x = torch.zeros(32, device=kind)

    def row() -> None:
        for _ in range(LAUNCHES[kind]):
            x.add_(1)

    return best_s(kind, row, least_s=0.0) / LAUNCHES[kind] * 1e9


def best_s(kind: str, call: Callable[[], object], least_s: float = STRETCH_S) -> float:
    """Seconds a call takes, in the best of several stretches of calls that follow each other."""
    call()
    once_s = _stretch_s(kind, call, 1)
    count = max(1, min(1000, int(least_s / once_s) + 1)) if least_s else 1
    return min(_stretch_s(kind, call, count) for _ in range(STRETCHES)) / count


def _stretch_s(kind: str, call: Callable[[], object], count: int) -> float:
    if kind == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    started = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - started

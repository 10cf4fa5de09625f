"""Inputs, reference and checks of the cholesky board.

A factor is judged by what it must satisfy, never by comparison with another library's factor. With ε the float32
machine epsilon, ‖·‖₁ the largest column sum of absolute values, and A one matrix of the batch:

    L finite,  diag(L) > 0,  ‖triu(L, 1)‖₁ ≤ 8·n·ε·‖A‖₁,  ‖L·Lᵀ − A‖₁ ≤ 20·n·ε·‖A‖₁

Messages give the residual as a fraction of what is allowed, so that 1 is the limit whatever n is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from task import input_t, output_t

EPSILON = torch.finfo(torch.float32).eps
RESIDUAL_FACTOR = 20
UPPER_FACTOR = 8

# Elements in one temporary. 2²⁶ floats are 256 MiB, which keeps the check of a single 32768² matrix (4 GiB) under
# 1 GiB of working memory and leaves every block large enough for the matrix units.
BLOCK_ELEMENTS = 2**26
BLOCK_COLUMNS = 2048


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def full_fp32() -> Iterator[None]:
    """Float32 matmuls in float32 (no TF32, no bfloat16) inside the block, whatever the process had chosen."""
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    saved = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        for backend, value in zip(backends, saved, strict=True):
            backend.fp32_precision = value


def _symmetrise(a: torch.Tensor) -> torch.Tensor:
    """Copy the lower triangle of [batch, n, n] onto the upper one, in place, block by block."""
    n = a.shape[-1]
    for start in range(0, n, BLOCK_COLUMNS):
        stop = min(start + BLOCK_COLUMNS, n)
        diagonal = a[:, start:stop, start:stop]
        lower = torch.tril(diagonal)
        diagonal.copy_(lower + torch.tril(lower, -1).mT)
        a[:, start:stop, stop:].copy_(a[:, stop:, start:stop].mT)
    return a


def _gram(factor: torch.Tensor, count: int) -> torch.Tensor:
    """F·Fᵀ / count for F [batch, n, k]: [batch, n, n], holding no temporary of that size."""
    with full_fp32():
        return _symmetrise(torch.bmm(factor, factor.mT).div_(count))


def _decades(n: int, decades: float, device: torch.device) -> torch.Tensor:
    """n values from 1 down to 10^-decades, evenly spaced in the logarithm."""
    return torch.logspace(0.0, -decades, n, device=device, dtype=torch.float32)


def _tridiagonal(batch: int, n: int, generator: torch.Generator) -> torch.Tensor:
    device = generator.device
    main = torch.rand(batch, n, device=device, generator=generator) + 1.5
    side = torch.rand(batch, n - 1, device=device, generator=generator).mul_(0.5).sub_(0.25)
    a = torch.diag_embed(main)
    a.diagonal(1, -2, -1).copy_(side)
    a.diagonal(-1, -2, -1).copy_(side)
    return a


def generate_input(batch: int, n: int, cond: int, seed: int, case: str = "dense") -> input_t:
    """Symmetric positive definite matrices [batch, n, n], float32, on CUDA where there is one.

    X is [n, n] and F [n, r] of standard normals, r = max(1, min(n // 8, 64)), S a diagonal:

    - dense:        X·Xᵀ/n + 10^-max(cond, 2)·I
    - spectrum:     Q·D·Qᵀ, Q from the QR of X with its signs fixed, D from 1 down to 10^-max(cond, 1)
    - diagonal:     that D itself
    - lowrank:      F·Fᵀ/r + 10^-max(cond, 3)·I
    - rowscale:     S·(X·Xᵀ/n + 1e-3·I)·S + 1e-6·I, S from 1 down to 10^-(max(cond, 2)/2)
    - tridiagonal:  diagonal in [1.5, 2.5], off-diagonals in [-0.25, 0.25]

    Every matrix is exactly symmetric. At most two copies of the batch are held at once for `dense`.
    """
    device = _device()
    generator = torch.Generator(device=device).manual_seed(seed % 2**63)

    def normals(columns: int) -> torch.Tensor:
        return torch.randn(batch, n, columns, device=device, dtype=torch.float32, generator=generator)

    if case == "dense":
        a = _gram(normals(n), n)
        a.diagonal(0, -2, -1).add_(10.0 ** -max(cond, 2))
    elif case == "spectrum":
        q, r = torch.linalg.qr(normals(n))
        q.mul_(torch.where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).unsqueeze(-2))
        with full_fp32():
            a = _symmetrise((q * _decades(n, max(cond, 1), device)) @ q.mT)
    elif case == "diagonal":
        a = torch.diag_embed(_decades(n, max(cond, 1), device).expand(batch, n))
    elif case == "lowrank":
        rank = max(1, min(n // 8, 64))
        a = _gram(normals(rank), rank)
        a.diagonal(0, -2, -1).add_(10.0 ** -max(cond, 3))
    elif case == "rowscale":
        scale = _decades(n, max(cond, 2) / 2, device)
        a = _gram(normals(n), n)
        a.diagonal(0, -2, -1).add_(1e-3)
        a = _symmetrise(a.mul_(scale.unsqueeze(-1)).mul_(scale))
        a.diagonal(0, -2, -1).add_(1e-6)
    elif case == "tridiagonal":
        a = _tridiagonal(batch, n, generator)
    else:
        raise ValueError(f"case: {case!r} (allowed: dense, diagonal, lowrank, rowscale, spectrum, tridiagonal)")
    return a.contiguous()


def vary_input(data: input_t, seed: int) -> input_t:
    """A fresh input of the same cost and structure, cheap enough to make for every timed call.

    Every matrix gets a random symmetric permutation of its own, P·A·Pᵀ: the spectrum, the norm and the arithmetic to
    be done stay, every element moves, and a factor of A is no shorter way to a factor of P·A·Pᵀ. Matrices never change
    places in the batch. A tridiagonal matrix would lose its band, so a batch of those is drawn anew; a permuted
    diagonal stays diagonal.
    """
    batch, n, _ = data.shape
    generator = torch.Generator(device=data.device).manual_seed(seed % 2**63)
    # The corner is zero by construction only in the banded cases.
    if n > 2 and not bool(data[:, -1, 0].any()) and bool(data[:, 1, 0].any()):
        return _tridiagonal(batch, n, generator)
    order = torch.rand(batch, n, device=data.device, generator=generator).argsort(dim=-1)
    matrix = torch.arange(batch, device=data.device)[:, None, None]
    return data[matrix, order[:, :, None], order[:, None, :]]


def ref_kernel(data: input_t) -> output_t:
    """The library's factor (LAPACK or cuSOLVER): [batch, n, n] float32."""
    with full_fp32():
        return torch.linalg.cholesky_ex(data, check_errors=True).L


def _batches(batch: int, n: int) -> Iterator[slice]:
    step = max(1, BLOCK_ELEMENTS // (n * n))
    return (slice(start, min(start + step, batch)) for start in range(0, batch, step))


def _blocks(n: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK_COLUMNS, n)) for start in range(0, n, BLOCK_COLUMNS))


def _norm1(a: torch.Tensor) -> torch.Tensor:
    """‖·‖₁ of each matrix of [batch, n, k]: [batch]. A NaN stays a NaN."""
    return torch.linalg.vector_norm(a, ord=1, dim=-2).amax(dim=-1)


def _upper_norm1(factor: torch.Tensor) -> torch.Tensor:
    """‖triu(L, 1)‖₁ of each matrix: [batch]."""
    worst = factor.new_zeros(factor.shape[0])
    for start, stop in _blocks(factor.shape[-1]):
        block = torch.triu(factor[:, :stop, start:stop], diagonal=1 - start)
        worst = torch.maximum(worst, _norm1(block))
    return worst


def _residual_norm1(a: torch.Tensor, factor: torch.Tensor, *, lower: bool) -> torch.Tensor:
    """‖L·Lᵀ − A‖₁ of each matrix: [batch].

    The residual is symmetric, so only its blocks on and below the diagonal are computed; a block below adds its column
    sums to its own columns and its row sums to the mirrored ones. With `lower`, the products stop where L is zero.
    """
    n = a.shape[-1]
    sums = a.new_zeros(a.shape[:2])
    for start, stop in _blocks(n):
        inner = stop if lower else n
        block = torch.bmm(factor[:, start:, :inner], factor[:, start:stop, :inner].mT)
        block.sub_(a[:, start:, start:stop]).abs_()
        sums[:, start:stop] += block.sum(dim=-2)
        sums[:, stop:] += block[:, stop - start :].sum(dim=-1)
    return sums.amax(dim=-1)


def _contract(data: input_t, output: output_t) -> str:
    """What is wrong with the output as an object, or an empty string."""
    if not isinstance(output, torch.Tensor):
        return f"output is a {type(output).__name__}, expected a torch.Tensor"
    if output.shape != data.shape:
        return f"output has shape {tuple(output.shape)}, expected {tuple(data.shape)}"
    if output.dtype != torch.float32:
        return f"output has dtype {output.dtype}, expected torch.float32"
    if output.device != data.device:
        return f"output is on {output.device}, expected {data.device}"
    if output.layout is not torch.strided:
        return f"output has layout {output.layout}, expected torch.strided"
    return ""


def _structure(factor: torch.Tensor, norm_a: torch.Tensor) -> tuple[str, torch.Tensor]:
    """What is wrong with the triangles or the diagonal (empty: nothing), and ‖triu(L, 1)‖₁ of each matrix."""
    n = factor.shape[-1]
    upper = torch.cat([_upper_norm1(factor[part]) for part in _batches(*factor.shape[:2])])
    scaled = upper / (UPPER_FACTOR * n * EPSILON * norm_a)
    worst = int(scaled.argmax())
    if not float(scaled[worst]) <= 1:
        return f"matrix {worst}: scaled norm of the upper triangle {float(scaled[worst]):.3g} of 1 allowed", upper
    smallest, position = factor.diagonal(0, -2, -1).min(dim=-1)
    worst = int(smallest.argmin())
    value, at = float(smallest[worst]), int(position[worst])
    if not value > 0:
        return f"matrix {worst}: diagonal element {at} is {value:.6g}, expected more than 0", upper
    return "", upper


def _first_non_finite(factor: torch.Tensor) -> str:
    for part in _batches(*factor.shape[:2]):
        for start, stop in _blocks(factor.shape[-1]):
            block = factor[part, :, start:stop]
            bad = ~torch.isfinite(block)
            if bool(bad.any()):
                matrix, row, column = (int(i) for i in bad.nonzero()[0])
                value = float(block[matrix, row, column])
                return f"matrix {part.start + matrix}: element [{row}, {start + column}] is {value}, expected finite"
    return ""


def _verdict(residual: torch.Tensor, norm_a: torch.Tensor, n: int, what: str) -> tuple[bool, str]:
    scaled = residual / (RESIDUAL_FACTOR * n * EPSILON * norm_a)
    worst = int(scaled.argmax())  # a NaN is the largest
    value = float(scaled[worst])
    return value <= 1, f"matrix {worst}: scaled residual{what} {value:.3g} of 1 allowed"


@torch.no_grad()
def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether `output` is the factor of every matrix in `data`; the message names the worst matrix either way."""
    problem = _contract(data, output) or _first_non_finite(output)
    if problem:
        return False, problem
    batch, n, _ = data.shape
    norm_a = _norm1(data)
    problem, upper = _structure(output, norm_a)
    if problem:
        return False, problem
    lower = not bool(upper.any())
    with full_fp32():
        residual = torch.cat([_residual_norm1(data[part], output[part], lower=lower) for part in _batches(batch, n)])
    return _verdict(residual, norm_a, n, "")


@torch.no_grad()
def spot_check(data: input_t, output: output_t, seed: int) -> tuple[bool, str]:
    """The check of every timed output: O(n²) a matrix where the full one is O(n³), from a start that `seed` hides.

    All rules but the last are checked in full. For the last, R = L·Lᵀ − A is never formed; ‖R‖₁ is bounded from below
    by the method of Hager (1984) and Higham (1988), which needs only products R·x = L·(Lᵀ·x) − A·x. R is symmetric.

    1. x random, ±1 in every element; y = R·x points at the rows in which something is wrong.
    2. z = R·sign(y); its largest element, at j, marks the column whose sum grows fastest.
    3. ‖R·eⱼ‖₁, the sum of column j, and the sum of one column picked blindly. Once more from sign(R·eⱼ).

    ‖R·eⱼ‖₁ ≤ ‖R‖₁ for every j, so by the rule itself no right answer is refused. The estimate is a true column sum,
    nearly always within a factor of three of the largest; zeros, a wrong block and a single wrong matrix in a batch
    are seen because every matrix has its own probes. What is within a factor of a few of the limit is left to the
    full check.
    """
    problem = _contract(data, output)
    if problem:
        return False, problem
    batch, n, _ = data.shape
    norm_a = _norm1(data)
    problem, _ = _structure(output, norm_a)
    if problem:
        return False, _first_non_finite(output) or problem
    generator = torch.Generator(device=data.device).manual_seed(seed % 2**63)
    probes = torch.randint(0, 2, (batch, n, 2), device=data.device, generator=generator).to(data.dtype).mul_(2).sub_(1)
    blind = torch.randint(0, n, (batch, 1), device=data.device, generator=generator)

    def apply(x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(output, torch.bmm(output.mT, x)).sub_(torch.bmm(data, x))

    def columns(index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(batch, n, index.shape[1], device=data.device).scatter_(1, index.unsqueeze(1), 1.0)

    with full_fp32():
        y = apply(probes)
        worst = data.new_zeros(batch)
        for _ in range(2):
            steepest = apply(torch.where(y < 0, -1.0, 1.0)).abs_().argmax(dim=1)
            y = apply(columns(torch.cat((steepest, blind), dim=1)))
            worst = torch.maximum(worst, _norm1(y))
    # Non-finite elements reach every product, so they end here; only then is it worth the pass that names the first.
    passed, message = _verdict(worst, norm_a, n, " (at least)")
    return passed, (message if passed else _first_non_finite(output) or message)

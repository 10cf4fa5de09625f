"""NVFP4 tensors: how they are drawn, laid out, decoded, multiplied and compared. Shared by the three NVFP4 boards.

NVFP4 is a block format. A value is an e2m1 code of four bits (a sign, two exponent bits, one mantissa bit), two codes
to a byte (`torch.float4_e2m1fn_x2`), the one of lower index in the low bits; every 16 values along K share one
`torch.float8_e4m3fn` scale. The order of scales in memory that the tensor cores want is cuBLAS's "1D block scaling
factors layout": https://docs.nvidia.com/cuda/cublas/#d-block-scaling-factors-layout.

Everything here runs on the device of its arguments, on CPU as on any CUDA card; no FP4 hardware is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch

BLOCK = 16
"""Values along K that share one scale."""
TILE_ROWS, TILE_SCALES = 128, 4
"""Rows, and scales along K, of one tile of the reordered layout: 512 bytes."""

ALL_CODES = 0xFF
SMALL_CODES = 0xBB
"""Byte masks for `random_fp4`: all sixteen codes, or ±{0, 0.5, 1, 1.5} alone (the upper exponent bit cleared)."""

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
RTOL = ATOL = 1e-3

_DECODED_AT_ONCE = 1 << 25
"""Most fp32 elements of B decoded at a time (128 MiB), so that the reference fits beside a kernel on a 24 GB card."""


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def default_device() -> torch.device:
    """Where the boards put their inputs: the CUDA device where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seeded_generator(seed: int) -> torch.Generator:
    """A generator on `default_device()`; a seed gives other values on CUDA than on CPU."""
    return torch.Generator(device=default_device()).manual_seed(seed)


def require_blocks(k: int) -> None:
    """Raise ValueError unless K is a whole number of scale blocks."""
    if k <= 0 or k % BLOCK:
        raise ValueError(f"k = {k} is not a positive multiple of {BLOCK}, the values that share one scale")


def random_fp4(rows: int, k: int, batch: int, generator: torch.Generator, mask: int = ALL_CODES) -> torch.Tensor:
    """Uniform e2m1 codes: float4_e2m1fn_x2 [rows, k/2, batch] with K contiguous, as a view of [batch, rows, k/2].

    `mask` is laid over every byte; see `ALL_CODES` and `SMALL_CODES`.
    """
    require_blocks(k)
    # Four bytes a draw: random numbers are made per element, and these are the largest tensors of a case.
    words = torch.randint(
        -(2**31), 2**31, (batch, rows, k // 8), dtype=torch.int32, generator=generator, device=generator.device
    )
    codes = words.view(torch.uint8)
    if mask != ALL_CODES:
        codes &= mask
    return codes.permute(1, 2, 0).view(torch.float4_e2m1fn_x2)


def random_output(m: int, n: int, batch: int, generator: torch.Generator) -> torch.Tensor:
    """The C that a case hands over: float16 [m, n, batch], n contiguous, filled with N(0, 1)."""
    c = torch.randn((batch, m, n), dtype=torch.float16, generator=generator, device=generator.device)
    return c.permute(1, 2, 0)


DrawScales = Callable[[tuple[int, ...]], torch.Tensor]
"""Returns valid float8_e4m3fn scales of the shape asked for."""


def integer_scales(low: int, high: int, generator: torch.Generator) -> DrawScales:
    """Scales drawn uniformly from the integers low … high, both included (at most 16: e4m3 holds those exactly)."""

    def draw(shape: tuple[int, ...]) -> torch.Tensor:
        drawn = torch.randint(low, high + 1, shape, dtype=torch.uint8, generator=generator, device=generator.device)
        return drawn.to(torch.float16).to(torch.float8_e4m3fn)

    return draw


def uniform_scales(generator: torch.Generator) -> DrawScales:
    """Scales drawn uniformly from [0, 1) and rounded to e4m3."""

    def draw(shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand(shape, generator=generator, device=generator.device).to(torch.float8_e4m3fn)

    return draw


def scale_pair(rows: int, k: int, batch: int, draw: DrawScales) -> tuple[torch.Tensor, torch.Tensor]:
    """The same scales twice: plain [rows, k/16, batch], K contiguous, and reordered (see `reorder_scales`).

    The reordered tensor's padding holds scales of the same distribution, so that a kernel that lets padding into a sum
    is found out, and one that merely reads it meets nothing unusual.
    """
    require_blocks(k)
    row_tiles, scale_tiles = ceil_div(rows, TILE_ROWS), ceil_div(k // BLOCK, TILE_SCALES)
    padded = draw((batch, row_tiles * TILE_ROWS, scale_tiles * TILE_SCALES))
    # A clone even where nothing is cut off, so that the strides are always the documented ones.
    plain = padded.view(torch.uint8)[:, :rows, : k // BLOCK].clone(memory_format=torch.contiguous_format)
    return plain.view(torch.float8_e4m3fn).permute(1, 2, 0), reorder_scales(padded)


def reorder_scales(padded: torch.Tensor) -> torch.Tensor:
    """Scales in the order that the tensor cores read, from [batch, 128·row_tiles, 4·scale_tiles].

    Returns [32, 4, row_tiles, 4, scale_tiles, batch] with strides (16, 4, 512·scale_tiles, 1, 512,
    512·row_tiles·scale_tiles): scale (i, j) sits at [i % 32, (i % 128) // 32, i // 128, j % 4, j // 4].
    """
    batch, rows, scales = padded.shape
    row_tiles, scale_tiles = rows // TILE_ROWS, scales // TILE_SCALES
    tiles = padded.view(torch.uint8).view(batch, row_tiles, 4, 32, scale_tiles, TILE_SCALES)
    memory = tiles.permute(0, 1, 4, 3, 2, 5).contiguous()
    return memory.view(torch.float8_e4m3fn).permute(3, 4, 1, 5, 2, 0)


@functools.cache
def _byte_values(device: torch.device) -> torch.Tensor:
    """float32 [256, 2]: the two values that each byte holds, the low four bits' first."""
    values = torch.tensor([*MAGNITUDES, *(-x for x in MAGNITUDES)])
    byte = torch.arange(256)
    return torch.stack([values[byte & 15], values[byte >> 4]], dim=1).to(device)


def decode(packed: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
    """The real values, float32 [rows, k], of packed codes [rows, k/2] and scales [rows, k/16].

    Without scales, the codes' own values.
    """
    pairs = torch.nn.functional.embedding(packed.view(torch.uint8).int(), _byte_values(packed.device))
    if scales is None:
        return pairs.flatten(1)
    blocks = pairs.view(packed.shape[0], -1, BLOCK)
    blocks *= scales.to(device=packed.device).float().unsqueeze(-1)
    return blocks.flatten(1)


def product(a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor | None, sfb: torch.Tensor | None) -> torch.Tensor:
    """A·Bᵀ of block-scaled operands in full fp32: float32 [m, n, l], n contiguous, in memory of its own.

    a: [m, k/2, l], b: [n, k/2, l] packed; sfa: [m, k/16, l], sfb: [n, k/16, l] plain scales, on any device, or None
    for unscaled operands.
    """
    m, half_k, batch = a.shape
    n = b.shape[0]
    out = torch.empty((batch, m, n), dtype=torch.float32, device=a.device)
    step = max(1, _DECODED_AT_ONCE // (2 * half_k))
    with full_fp32():
        for i in range(batch):
            left = decode(a[:, :, i], None if sfa is None else sfa[:, :, i])
            for first in range(0, n, step):
                rows = slice(first, min(first + step, n))
                right = decode(b[rows, :, i], None if sfb is None else sfb[rows, :, i])
                out[i, :, rows] = left @ right.T
    return out.permute(1, 2, 0)


@contextmanager
def full_fp32() -> Iterator[None]:
    """Within it, fp32 matrix products are done in fp32: no TF32 on CUDA, no bf16 on CPU. Settings are put back."""
    with ExitStack() as undo:
        for backend in (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul):
            undo.callback(setattr, backend, "fp32_precision", backend.fp32_precision)
            backend.fp32_precision = "ieee"
        yield


def mismatch(output: object, expected: torch.Tensor, *, rtol: float = RTOL, atol: float = ATOL) -> str:
    """Why `output` is not `expected`, or an empty string.

    Dtype, shape and device must be the same, and every element within atol + rtol·|expected|. NaN equals nothing; an
    infinity equals itself alone.
    """
    if not isinstance(output, torch.Tensor):
        return f"a torch.Tensor was expected, got {type(output).__name__}"
    for what in ("dtype", "shape", "device"):
        got, wanted = getattr(output, what), getattr(expected, what)
        if got != wanted:
            return f"{what} is {_plain(got)}, expected {_plain(wanted)}"
    reference = expected.float()
    within = (output.float() - reference).abs_() <= reference.abs().mul_(rtol).add_(atol)
    within &= reference.isfinite()  # the tolerance of an infinity is infinite
    wrong = ~(within | (output == expected))
    count = int(wrong.sum())
    if not count:
        return ""
    # argmax of bytes finds the first one without the list of all of them, which nonzero() would build.
    flat = int(wrong.reshape(-1).view(torch.uint8).argmax())
    first = tuple(int(x) for x in torch.unravel_index(torch.tensor(flat), wrong.shape))
    return (
        f"{count} of {wrong.numel()} elements differ by more than {atol:g} + {rtol:g}·|expected|; the first, at "
        f"{first}, is {output[first].item()!r}, expected {expected[first].item()!r}"
    )


def _plain(value: object) -> str:
    return str(list(value)) if isinstance(value, torch.Size) else str(value)

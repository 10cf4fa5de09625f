#!POPCORN leaderboard nvfp4_gemm
#!POPCORN gpu B200
"""NVFP4 block-scaled GEMM in Triton, on any card: decode to fp16 in the kernel, multiply, add up in fp32.

The even and the odd k of a byte go through products of their own, so that no value has to change its place. Slow, since
every program decodes its operands anew and the products are in fp16: Blackwell's tensor cores take FP4 and the
reordered scales as they are (tl.dot_scaled, or tcgen05.mma.kind::mxf4nvf4).
"""

import torch
import triton
import triton.language as tl
from task import input_t, output_t


@triton.jit
def e2m1(codes):
    """Four-bit codes (uint8) as fp16. Moved up, their bits are an fp16 number that is 2^14 times too small."""
    bits = codes.to(tl.uint16)
    return (((bits & 8) << 12) | ((bits & 7) << 9)).to(tl.float16, bitcast=True) * 16384.0


@triton.jit
def e4m3(codes):
    """e4m3 codes (uint8) as fp16, the same way; done by hand since older cards have no fp8 type."""
    bits = codes.to(tl.uint16)
    return (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True) * 256.0


@triton.jit
def load_scaled(values_ptr, scales_ptr, rows, first_byte, row_count, k, BYTES: tl.constexpr):
    """Values of even and of odd k, times their scales: two fp16 [rows, BYTES]. Both products are exact in fp16."""
    columns = first_byte + tl.arange(0, BYTES)
    inside = (rows < row_count)[:, None] & (columns < k // 2)[None, :]
    packed = tl.load(values_ptr + rows[:, None] * (k // 2) + columns[None, :], mask=inside, other=0)
    # Scale j of row i in the order of the tensor cores: tiles of 128 rows by 4 scales, 512 bytes each.
    i, j = rows[:, None], (columns // 8)[None, :]
    tile = (i // 128) * ((k + 63) // 64) + j // 4
    codes = tl.load(scales_ptr + tile * 512 + (i % 32) * 16 + (i % 128) // 32 * 4 + j % 4, mask=inside, other=0)
    scale = e4m3(codes)
    return e2m1(packed & 15) * scale, e2m1(packed >> 4) * scale


@triton.jit
def gemm_kernel(
    a_ptr, b_ptr, sfa_ptr, sfb_ptr, c_ptr, m, n, k,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_BYTES: tl.constexpr,
):  # fmt: skip
    """One tile of C a program, rows of a tile contiguous in memory."""
    row = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    column = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for first_byte in range(0, k // 2, TILE_BYTES):
        a_even, a_odd = load_scaled(a_ptr, sfa_ptr, row, first_byte, m, k, TILE_BYTES)
        b_even, b_odd = load_scaled(b_ptr, sfb_ptr, column, first_byte, n, k, TILE_BYTES)
        total = tl.dot(a_even, b_even.T, total)
        total = tl.dot(a_odd, b_odd.T, total)
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.store(c_ptr + row[:, None] * n + column[None, :], total.to(tl.float16), mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """data: see the board's description. Returns c, written in place."""
    a, b, _, _, sfa, sfb, c = data
    m, n, batch = c.shape
    k = 2 * a.shape[1]
    # Triton gets the bytes: fp4 is no type of its own there.
    a, b, sfa, sfb = (x.view(torch.uint8) for x in (a, b, sfa, sfb))
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    for i in range(batch):
        gemm_kernel[grid](
            a[..., i], b[..., i], sfa[..., i], sfb[..., i], c[..., i], m, n, k, TILE_M=64, TILE_N=64, TILE_BYTES=32
        )
    return c

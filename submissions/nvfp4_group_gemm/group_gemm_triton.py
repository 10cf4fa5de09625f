#!POPCORN leaderboard nvfp4_group_gemm
#!POPCORN gpu B200
"""NVFP4 group GEMM in Triton for Blackwell: one launch over the tiles of all groups; FP4 by tl.dot_scaled.

The tile map is a table on the device, made once for a set of problem sizes: for each program the group, and the row and
column of C where its tile begins, groups with the longest k first. Pointers are new in every call; they come as kernel
arguments, five a group, so nothing is copied to the device for them, and a program picks those of its group. With them
it makes tensor descriptors of its own, in global memory that `scratch` hands out.

Compiled for sm_100a, not run here: tile sizes and stages are chosen by what fits, not by measurement.
"""

import functools

import torch
import triton
import triton.language as tl
from task import input_t, output_t

TILE_M, TILE_N = 128, 128


@triton.jit
def scales_of(memory_ptr, rows, k, ROWS: tl.constexpr, SCALES: tl.constexpr):
    """A descriptor of the reordered scales of [rows, k]: tiles of 128 rows by 4 scales are 512 bytes."""
    row_tiles, scale_tiles = tl.cdiv(rows, 128), tl.cdiv(k, 64)
    return tl.make_tensor_descriptor(
        memory_ptr,
        shape=[1, row_tiles, scale_tiles, 2, 256],
        strides=[row_tiles * scale_tiles * 512, scale_tiles * 512, 512, 256, 1],
        block_shape=[1, ROWS // 128, SCALES // 4, 2, 256],
    )


@triton.jit
def load_scales(descriptor, row_tile, scale_tile, ROWS: tl.constexpr, SCALES: tl.constexpr):
    """e4m3 [ROWS, SCALES] of the reordered layout, from its tile of 128 rows and its tile of 4 scales given."""
    row_tiles: tl.constexpr = ROWS // 128
    scale_tiles: tl.constexpr = SCALES // 4
    memory = descriptor.load([0, row_tile, scale_tile, 0, 0])
    return memory.reshape(row_tiles, scale_tiles, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(ROWS, SCALES)


@triton.jit
def group_gemm_kernel(
    tile_map_ptr, a_ptrs, b_ptrs, sfa_ptrs, sfb_ptrs, c_ptrs, ms, ns, ks,
    GROUPS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """A tile of one group's C a program. tile_map [tiles, 3] int32; the rest are tuples over groups."""
    entry = tile_map_ptr + 3 * tl.program_id(0)
    group, row, column = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2)
    a_ptr, b_ptr, sfa_ptr, sfb_ptr, c_ptr = a_ptrs[0], b_ptrs[0], sfa_ptrs[0], sfb_ptrs[0], c_ptrs[0]
    m, n, k = ms[0], ns[0], ks[0]
    for g in tl.static_range(1, GROUPS):
        if group == g:
            a_ptr, b_ptr, sfa_ptr, sfb_ptr, c_ptr = a_ptrs[g], b_ptrs[g], sfa_ptrs[g], sfb_ptrs[g], c_ptrs[g]
            m, n, k = ms[g], ns[g], ks[g]
    a_descriptor = tl.make_tensor_descriptor(a_ptr, [m, k // 2], [k // 2, 1], [TILE_M, TILE_K // 2])
    b_descriptor = tl.make_tensor_descriptor(b_ptr, [n, k // 2], [k // 2, 1], [TILE_N, TILE_K // 2])
    c_descriptor = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [TILE_M, TILE_N])
    sfa_descriptor = scales_of(sfa_ptr, m, k, TILE_M, TILE_K // 16)
    sfb_descriptor = scales_of(sfb_ptr, n, k, TILE_N, TILE_K // 16)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in tl.range(0, k, TILE_K, num_stages=STAGES):
        a = a_descriptor.load([row, start // 2])
        b = b_descriptor.load([column, start // 2])
        sfa = load_scales(sfa_descriptor, row // 128, start // 64, TILE_M, TILE_K // 16)
        sfb = load_scales(sfb_descriptor, column // 128, start // 64, TILE_N, TILE_K // 16)
        total = tl.dot_scaled(a, sfa, "e2m1", b.T, sfb, "e2m1", total)
    c_descriptor.store([row, column], total.to(tl.float16))


def tile_order(sizes: tuple[tuple[int, int, int], ...]) -> list[tuple[int, int, int]]:
    """(group, row, column) of every tile, groups of the longest k first, so that short ones fill up the end."""
    tiles = []
    for g in sorted(range(len(sizes)), key=lambda g: -sizes[g][2]):
        m, n, _ = sizes[g]
        tiles += [(g, row, column) for column in range(0, n, TILE_N) for row in range(0, m, TILE_M)]
    return tiles


@functools.cache
def tile_map(sizes: tuple[tuple[int, int, int], ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(tile_order(sizes), dtype=torch.int32, device=device)


def scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Global memory for the descriptors that programs make."""
    return torch.empty(size, dtype=torch.int8, device="cuda" if torch.cuda.is_available() else "cpu")


def custom_kernel(data: input_t) -> output_t:
    abc, _, reordered, problem_sizes = data
    sizes = tuple((m, n, k) for m, n, k, _ in problem_sizes)
    if any(k % 64 for _, _, k in sizes):
        raise ValueError(f"k = {[k for _, _, k in sizes]}: this kernel wants k in 64s")
    tiles = tile_map(sizes, abc[0][2].device)
    tile_k = 256 if all(k % 256 == 0 for _, _, k in sizes) else 64
    triton.set_allocator(scratch)
    group_gemm_kernel[(len(tiles),)](
        tiles,
        tuple(a.view(torch.uint8) for a, _, _ in abc),
        tuple(b.view(torch.uint8) for _, b, _ in abc),
        tuple(sfa for sfa, _ in reordered),
        tuple(sfb for _, sfb in reordered),
        tuple(c for _, _, c in abc),
        *zip(*sizes, strict=True),
        GROUPS=len(sizes), TILE_M=TILE_M, TILE_N=TILE_N, TILE_K=tile_k, STAGES=4,
        num_warps=4,
    )  # fmt: skip
    return [c for _, _, c in abc]

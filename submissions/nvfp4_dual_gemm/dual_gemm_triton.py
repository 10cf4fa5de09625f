#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
"""NVFP4 gated dual GEMM in Triton for Blackwell: both products in one pass over A, silu and multiply in the kernel.

The tensor cores take FP4 and its scales as they are (tl.dot_scaled). A program has a tile of both products in tensor
memory, 128 columns each, so A and its scales are fetched once for two products. Everything is fetched by tensor
descriptors: values as bytes, two each; scales in the board's reordered layout, whose 512 bytes for 128 rows by 4 scales
are two rows of 256 to the descriptor, and which the kernel only has to name in the order of rows and scales.

Where tiles are few, `split` programs share one, each with a part of k. Partial sums stay in fp32: all write theirs to a
workspace, the last to come adds them up. CONFIGS says what is used for the shapes of the benchmark.

Compiled for sm_100a, not run here: tile sizes and stages are chosen by what fits, not by measurement.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from task import input_t, output_t
from triton.tools.tensor_descriptor import TensorDescriptor


class Config(NamedTuple):
    tile_k: int
    split: int
    stages: int


# (m, n, k) of the benchmark: programs are 64 · 2, 128, 48 · 2 and 96, for 148 multiprocessors.
CONFIGS = {
    (256, 4096, 7168): Config(256, 2, 3),
    (512, 4096, 7168): Config(256, 1, 3),
    (256, 3072, 4096): Config(256, 2, 3),
    (512, 3072, 7168): Config(256, 1, 3),
}
OTHERS = (Config(256, 1, 3), Config(128, 1, 4), Config(64, 1, 4))
TILE_M, TILE_N = 128, 128


def plan(m: int, n: int, k: int) -> Config:
    """Raises ValueError where k is no multiple of 64."""
    for config in (CONFIGS.get((m, n, k), OTHERS[0]), *OTHERS):
        if k % (config.tile_k * config.split) == 0:
            return config
    raise ValueError(f"k = {k}: this kernel wants k in 64s")


@triton.jit
def load_scales(descriptor, row_tile, scale_tile, ROWS: tl.constexpr, SCALES: tl.constexpr):
    """e4m3 [ROWS, SCALES] of the reordered layout, from its tile of 128 rows and its tile of 4 scales given."""
    row_tiles: tl.constexpr = ROWS // 128
    scale_tiles: tl.constexpr = SCALES // 4
    memory = descriptor.load([0, row_tile, scale_tile, 0, 0])
    return memory.reshape(row_tiles, scale_tiles, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(ROWS, SCALES)


@triton.jit
def gated(gate, linear):
    """silu(gate) · linear, cast once."""
    return (gate / (1 + tl.exp(-gate)) * linear).to(tl.float16)


@triton.jit
def dual_gemm_kernel(
    a_descriptor, b1_descriptor, b2_descriptor, sfa_descriptor, sfb1_descriptor, sfb2_descriptor, c_descriptor,
    partial_ptr, arrived_ptr, m, n, k,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, SPLIT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One part of k of one tile of C a program."""
    tile, part = tl.program_id(0), tl.program_id(1)
    tiles_m = tl.cdiv(m, TILE_M)
    row, column = tile % tiles_m * TILE_M, tile // tiles_m * TILE_N
    gate = tl.zeros((TILE_M, TILE_N), tl.float32)
    linear = tl.zeros((TILE_M, TILE_N), tl.float32)
    first = part * (k // SPLIT)
    for start in tl.range(first, first + k // SPLIT, TILE_K, num_stages=STAGES):
        a = a_descriptor.load([row, start // 2])
        sfa = load_scales(sfa_descriptor, row // 128, start // 64, TILE_M, TILE_K // 16)
        b1 = b1_descriptor.load([column, start // 2])
        sfb1 = load_scales(sfb1_descriptor, column // 128, start // 64, TILE_N, TILE_K // 16)
        gate = tl.dot_scaled(a, sfa, "e2m1", b1.T, sfb1, "e2m1", gate)
        b2 = b2_descriptor.load([column, start // 2])
        sfb2 = load_scales(sfb2_descriptor, column // 128, start // 64, TILE_N, TILE_K // 16)
        linear = tl.dot_scaled(a, sfa, "e2m1", b2.T, sfb2, "e2m1", linear)
    if SPLIT == 1:
        c_descriptor.store([row, column], gated(gate, linear))
    else:
        TILE: tl.constexpr = TILE_M * TILE_N
        places = tl.arange(0, TILE_M)[:, None] * TILE_N + tl.arange(0, TILE_N)[None, :]
        partials = partial_ptr + tile * 2 * SPLIT * TILE + places
        tl.store(partials + 2 * part * TILE, gate)
        tl.store(partials + (2 * part + 1) * TILE, linear)
        tl.debug_barrier()  # all threads have written before one of them says so
        if tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel") == SPLIT - 1:
            gate = tl.zeros((TILE_M, TILE_N), tl.float32)
            linear = tl.zeros((TILE_M, TILE_N), tl.float32)
            for other in tl.static_range(SPLIT):  # in one order, whoever is last: the same sum every time
                gate += tl.load(partials + 2 * other * TILE, cache_modifier=".cg")
                linear += tl.load(partials + (2 * other + 1) * TILE, cache_modifier=".cg")
            c_descriptor.store([row, column], gated(gate, linear))
            tl.store(arrived_ptr + tile, 0)  # for the next call


@functools.cache
def workspace(tiles: int, split: int, tile_elements: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Partial sums, and how many of a tile's have been written."""
    sums = torch.empty(tiles * split * tile_elements if split > 1 else 1, dtype=torch.float32, device=device)
    return sums, torch.zeros(tiles, dtype=torch.int32, device=device)


def scales_descriptor(reordered: torch.Tensor, rows: int, scales: int) -> TensorDescriptor:
    """For boxes of rows × scales of [32, 4, row_tiles, 4, scale_tiles]."""
    row_tiles, scale_tiles = reordered.shape[2], reordered.shape[4]
    memory = reordered.permute(2, 4, 0, 1, 3).view(1, row_tiles, scale_tiles, 2, 256)
    return TensorDescriptor.from_tensor(memory, [1, rows // 128, scales // 4, 2, 256])


def values_descriptor(packed: torch.Tensor, rows: int, k: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(packed.view(torch.uint8), [rows, k // 2])


def custom_kernel(data: input_t) -> output_t:
    a, b1, b2, _, _, _, sfa, sfb1, sfb2, c = data
    m, n, batch = c.shape
    k = 2 * a.shape[1]
    config = plan(m, n, k)
    grid = (triton.cdiv(m, TILE_M) * triton.cdiv(n, TILE_N), config.split)
    partial, arrived = workspace(grid[0], config.split, 2 * TILE_M * TILE_N, c.device)
    for i in range(batch):
        dual_gemm_kernel[grid](
            values_descriptor(a[..., i], TILE_M, config.tile_k),
            values_descriptor(b1[..., i], TILE_N, config.tile_k),
            values_descriptor(b2[..., i], TILE_N, config.tile_k),
            scales_descriptor(sfa[..., i], TILE_M, config.tile_k // 16),
            scales_descriptor(sfb1[..., i], TILE_N, config.tile_k // 16),
            scales_descriptor(sfb2[..., i], TILE_N, config.tile_k // 16),
            TensorDescriptor.from_tensor(c[..., i], [TILE_M, TILE_N]),
            partial, arrived, m, n, k,
            TILE_M=TILE_M, TILE_N=TILE_N, TILE_K=config.tile_k, SPLIT=config.split, STAGES=config.stages,
            num_warps=8,
        )  # fmt: skip
    return c

#!POPCORN leaderboard nvfp4_gemm
#!POPCORN gpu B200
"""NVFP4 GEMM in Helion, for Blackwell: the loops over tiles written out, everything below them left to the compiler.

Helion turns this into a Triton kernel with `tl.dot_scaled`, so the tensor cores take FP4 as it is. Scales are the plain
ones, [rows, k/16], which have to be put in the tensor cores' order on the way. nvfp4_gemm_triton.py and
nvfp4_gemm_cute.py take the reordered ones, so this one is the shortest, not the one to beat.

The configuration is written down, not tuned: there was no Blackwell card to tune it on. Compiled for sm_100a, not run
here.
"""

import helion
import helion.language as hl
import torch
from task import input_t, output_t


@helion.kernel(
    static_shapes=True,
    config=helion.Config(
        block_sizes=[128, 128, 128], num_warps=4, num_stages=4, indexing="tensor_descriptor", pid_type="flat"
    ),
)
def gemm(a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor, sfb: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """a [m, k/2], b [n, k/2] bytes; sfa [m, k/16], sfb [n, k/16] e4m3; c [m, n] fp16."""
    m, half_k = a.shape
    n = b.shape[0]
    for tile_m, tile_n in hl.tile([m, n]):
        total = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(half_k):  # bytes
            blocks = tile_k.begin // 8 + hl.arange(tile_k.block_size // 8)
            total = hl.dot_scaled(
                a[tile_m, tile_k],
                sfa[tile_m, blocks],
                "e2m1",
                b[tile_n, tile_k].T,
                sfb[tile_n, blocks],
                "e2m1",
                acc=total,
            )
        c[tile_m, tile_n] = total.to(torch.float16)
    return c


def custom_kernel(data: input_t) -> output_t:
    a, b, sfa, sfb, _, _, c = data
    for i in range(c.shape[2]):
        gemm(a[..., i].view(torch.uint8), b[..., i].view(torch.uint8), sfa[..., i], sfb[..., i], c[..., i])
    return c

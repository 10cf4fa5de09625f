#!POPCORN leaderboard matmul
"""Device-side descriptors. Warp specialisation is a parameter that nobody turns on."""

import torch
import triton
import triton.language as tl

BLOCK = (128, 128, 64)
USE_WARP_SPECIALIZATION = False


@triton.jit
def descriptor_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr = False,
    SPLIT_K: tl.constexpr = 1,
):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    pid_k = tl.program_id(2)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(pid_k * BK, K, BK * SPLIT_K, warp_specialize=WARP_SPECIALIZE, num_stages=2):
        a = a_desc.load([pid_m * BM, k])
        b = b_desc.load([pid_n * BN, k])
        acc += tl.dot(a, b.T)
    c_desc.store([pid_m * BM, pid_n * BN], acc.to(tl.bfloat16))


def custom_kernel(data):
    a, b = data
    M, K = a.shape
    N = b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=torch.bfloat16)
    bm, bn, bk = BLOCK
    grid = (triton.cdiv(M, bm), triton.cdiv(N, bn), 1)
    warps = 4 if N < 2048 else 8
    descriptor_kernel[grid](
        a, b, c, M, N, K, BM=bm, BN=bn, BK=bk, WARP_SPECIALIZE=USE_WARP_SPECIALIZATION, num_warps=warps
    )
    return c

#!POPCORN leaderboard matmul
import torch
import triton
import triton.language as tl


@triton.jit
def splitk_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    pid = tl.program_id(0)
    slice_k = tl.program_id(1)
    pid_n = pid % tl.cdiv(N, BLOCK_N)
    pid_m = pid // tl.cdiv(N, BLOCK_N)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = slice_k * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rm[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs, cache_modifier=".cg")
        acc += tl.dot(a, b, input_precision="tf32")
        a_ptrs += BLOCK_K * SPLIT_K
        b_ptrs += BLOCK_K * SPLIT_K * N
    c_ptrs = c_ptr + rm[:, None] * N + rn[None, :]
    if SPLIT_K == 1:
        tl.store(c_ptrs, acc)
    else:
        tl.atomic_add(c_ptrs, acc, sem="relaxed")


def launch(a, b, c, split):
    M, K = a.shape
    N = b.shape[1]
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 64), split)
    splitk_kernel[grid](a, b, c, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, SPLIT_K=split, num_warps=4, num_stages=5)


def custom_kernel(data):
    a, b = data
    c = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    if a.shape[1] >= 8192:
        launch(a, b, c, 8)
    else:
        launch(a, b, c, 1)
    return c

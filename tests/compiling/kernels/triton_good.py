#!POPCORN leaderboard tile
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        kk = at + tl.arange(0, K)
        x = tl.load(a + i[:, None] * k + kk[None, :], mask=(i[:, None] < m) & (kk[None, :] < k), other=0.0)
        y = tl.load(b + j[None, :] * k + kk[:, None], mask=(j[None, :] < n) & (kk[:, None] < k), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * n + j[None, :], acc, mask=(i[:, None] < m) & (j[None, :] < n))


def custom_kernel(data):
    a, b, c, _ = data
    (m, k), n = a.shape, b.shape[0]
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 64))
    matmul[grid](a, b, c, m, n, k, M=128, N=64, K=64, num_warps=4, num_stages=3)
    return c

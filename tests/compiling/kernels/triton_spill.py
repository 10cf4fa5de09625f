#!POPCORN leaderboard tile
import triton
import triton.language as tl


@triton.jit
def heavy(a, c, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i[:, None] * N + i[None, :]).to(tl.float32)
    y = tl.exp(x)
    z = x * y + 1.0
    for _ in range(4):
        x, y, z = y * x + z, z * y + x, x * z + y
    tl.store(c + i[:, None] * N + i[None, :], x + y + z)


def custom_kernel(data):
    a, _b, c, _ = data
    heavy[(1,)](a, c, N=128, num_warps=4, maxnreg=64)
    return c

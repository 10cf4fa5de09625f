#!POPCORN leaderboard tile
import triton
import triton.language as tl


@triton.jit
def copy(a, c, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(c + i, tl.load(a + i))


def custom_kernel(data):
    a, _b, c, rows = data
    copy[(1,)](a, c, N=int(rows[0]))
    copy[(1,)](a, c, N=128 if c.sum().item() > 0 else 64)
    return c

#!POPCORN leaderboard tile
import triton
import triton.language as tl


@triton.jit
def inner(x):
    return tl.no_such_function(x)


@triton.jit
def broken(a, c, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(c + i, inner(tl.load(a + i)))


def custom_kernel(data):
    a, _b, c, _ = data
    broken[(1,)](a, c, N=128)
    return c

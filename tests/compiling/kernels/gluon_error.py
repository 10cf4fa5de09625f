#!POPCORN leaderboard tile
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def broken(a, c, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    other: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    x = gl.load(a + gl.arange(0, N, layout))
    gl.store(c + gl.arange(0, N, other), x)


def custom_kernel(data):
    a, _b, c, _ = data
    broken[(1,)](a, c, N=512, num_warps=4)
    return c

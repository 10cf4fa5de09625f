#!POPCORN leaderboard tile
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def heavy(a, c, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    i = gl.arange(0, N, gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]
    x = gl.load(a + i * N + j).to(gl.float32)
    y = gl.exp(x)
    z = x * y + 1.0
    for _ in range(4):
        x, y, z = y * x + z, z * y + x, x * z + y
    gl.store(c + i * N + j, x + y + z)


def custom_kernel(data):
    a, _b, c, _ = data
    heavy[(1,)](a, c, N=128, num_warps=4, maxnreg=64)
    return c

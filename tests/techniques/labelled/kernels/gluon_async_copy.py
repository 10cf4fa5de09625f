#!POPCORN leaderboard scale
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy as cp


@gluon.jit
def scale_kernel(x_ptr, y_ptr, numel, factor, BLOCK: gl.constexpr, BUFFERS: gl.constexpr, ITERS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    smem_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    smem = gl.allocate_shared_memory(gl.float32, [BUFFERS, BLOCK], smem_layout)
    base = gl.program_id(0) * BLOCK * ITERS
    offs = gl.arange(0, BLOCK, layout=layout)
    for i in gl.static_range(BUFFERS - 1):
        cp.async_copy_global_to_shared(smem.index(i), x_ptr + base + i * BLOCK + offs, mask=base + i * BLOCK + offs < numel)
        cp.commit_group()
    for i in range(ITERS):
        ahead = i + BUFFERS - 1
        at = base + ahead * BLOCK + offs
        cp.async_copy_global_to_shared(smem.index(ahead % BUFFERS), x_ptr + at, mask=(at < numel) & (ahead < ITERS))
        cp.commit_group()
        cp.wait_group(BUFFERS - 1)
        x = smem.index(i % BUFFERS).load(layout)
        here = base + i * BLOCK + offs
        gl.store(y_ptr + here, x * factor, mask=here < numel)


def custom_kernel(data):
    x, factor = data
    y = torch.empty_like(x)
    BLOCK, ITERS = 1024, 8
    scale_kernel[(triton.cdiv(x.numel(), BLOCK * ITERS),)](x, y, x.numel(), factor, BLOCK=BLOCK, BUFFERS=3, ITERS=ITERS, num_warps=4)
    return y

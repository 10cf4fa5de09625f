#!POPCORN leaderboard tile
"""One tile by the fifth-generation tensor core, loaded by TMA."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    get_tmem_reg_layout,
    mbarrier,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def tile(a_desc, b_desc, c, n, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    layout: gl.constexpr = TensorMemoryLayout([M, N], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [M, N], layout)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    mbarrier.expect(loaded, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(a_desc, [gl.program_id(0) * M, 0], loaded, a)
    tma.async_copy_global_to_shared(b_desc, [gl.program_id(1) * N, 0], loaded, b)
    mbarrier.wait(loaded, 0)
    tcgen05_mma(a, b.permute((1, 0)), acc, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    registers: gl.constexpr = get_tmem_reg_layout(gl.float32, (M, N), layout, num_warps=4)
    out = acc.load(registers)
    rows = gl.program_id(0) * M + gl.arange(0, M, gl.SliceLayout(1, out.type.layout))
    columns = gl.program_id(1) * N + gl.arange(0, N, gl.SliceLayout(0, out.type.layout))
    gl.store(c + rows[:, None] * n + columns[None, :], out)


def custom_kernel(data):
    a, b, c, _ = data
    M, N, K = 128, 128, 64
    layout = gl.NVMMASharedLayout.get_default_for([M, K], gl.float16)
    a_desc = TensorDescriptor.from_tensor(a, [M, K], layout)
    b_desc = TensorDescriptor.from_tensor(b, [N, K], layout)
    tile[(a.shape[0] // M, b.shape[0] // N)](a_desc, b_desc, c, b.shape[0], M=M, N=N, K=K, num_warps=4)
    return c

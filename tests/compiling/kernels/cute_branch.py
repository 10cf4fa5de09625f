#!POPCORN leaderboard tile
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def copy(a: cute.Tensor, c: cute.Tensor, n: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    c[block * n + thread] = a[block * n + thread].to(cutlass.Float32)


@cute.jit
def run(a: cute.Tensor, c: cute.Tensor, n: cutlass.Constexpr):
    copy(a, c, n).launch(grid=[4, 1, 1], block=[n, 1, 1])


def custom_kernel(data):
    a, _b, c, _ = data
    assert cutlass.utils.HardwareInfo().get_max_active_clusters(2) > 1
    threads = 512 if torch.cuda.get_device_capability() >= (10, 0) else 128
    run(*[from_dlpack(x.view(-1), assumed_align=16) for x in (a, c)], threads)
    return c

#!POPCORN leaderboard tile
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def greedy(a: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    storage = cutlass.utils.SmemAllocator()
    kept = storage.allocate_tensor(cutlass.Float32, cute.make_layout(65536), 16)
    kept[thread] = a[thread].to(cutlass.Float32)
    cute.arch.sync_threads()
    c[thread] = kept[255 - thread]


@cute.jit
def run(a: cute.Tensor, c: cute.Tensor):
    greedy(a, c).launch(grid=[1, 1, 1], block=[256, 1, 1])


def custom_kernel(data):
    a, _b, c, _ = data
    run(*[from_dlpack(x.view(-1), assumed_align=16) for x in (a, c)])
    return c

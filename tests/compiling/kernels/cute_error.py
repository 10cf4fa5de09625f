#!POPCORN leaderboard tile
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def broken(a: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    c[thread] = a.no_such_member[thread]


@cute.jit
def run(a: cute.Tensor, c: cute.Tensor):
    broken(a, c).launch(grid=[1, 1, 1], block=[256, 1, 1])


def custom_kernel(data):
    a, _b, c, _ = data
    run(*[from_dlpack(x.view(-1), assumed_align=16) for x in (a, c)])
    return c

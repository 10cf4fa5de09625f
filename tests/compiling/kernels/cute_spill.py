#!POPCORN leaderboard tile
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def heavy(a: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    kept = cute.make_rmem_tensor(cute.make_layout(160), cutlass.Float32)
    for i in cutlass.range_constexpr(160):
        kept[i] = a[thread + 1024 * i].to(cutlass.Float32)
    for i in cutlass.range_constexpr(160):
        kept[i] = kept[i] * kept[(i * 7 + 3) % 160] + kept[(i * 11 + 5) % 160]
    for i in cutlass.range_constexpr(160):
        c[thread + 1024 * i] = kept[i]


@cute.jit
def run(a: cute.Tensor, c: cute.Tensor):
    heavy(a, c).launch(grid=[1, 1, 1], block=[1024, 1, 1])


def custom_kernel(data):
    a, _b, c, _ = data
    tensors = [from_dlpack(x.view(-1), assumed_align=16).mark_layout_dynamic() for x in (a, c)]
    run(*tensors)
    return c

#!POPCORN leaderboard tile
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def double(a: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    storage = cutlass.utils.SmemAllocator()
    kept = storage.allocate_tensor(cutlass.Float32, cute.make_layout(256), 16)
    at = block * 256 + thread
    kept[thread] = a[at].to(cutlass.Float32)
    cute.arch.sync_threads()
    c[at] = kept[255 - thread] * 2.0


@cute.jit
def run(a: cute.Tensor, c: cute.Tensor):
    double(a, c).launch(grid=[cute.size(a) // 256, 1, 1], block=[256, 1, 1], cluster=[2, 1, 1])


compiled = {}


def custom_kernel(data):
    a, _b, c, _ = data
    tensors = [from_dlpack(x.view(-1), assumed_align=16).mark_layout_dynamic() for x in (a, c)]
    if "run" not in compiled:
        compiled["run"] = cute.compile(run, *tensors)
    compiled["run"](*tensors)
    return c

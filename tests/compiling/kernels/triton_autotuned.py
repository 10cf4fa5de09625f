#!POPCORN leaderboard tile
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"N": n}, num_warps=w) for n, w in ((256, 2), (1024, 4))]
    + [triton.Config({"N": 4096}, num_warps=64)],
    key=["n"],
)
@triton.jit
def scale(a, c, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(c + i, tl.load(a + i, mask=i < n) * 2, mask=i < n)


def custom_kernel(data):
    a, _b, c, _ = data
    scale[lambda meta: (triton.cdiv(a.numel(), meta["N"]),)](a, c, a.numel())
    return c

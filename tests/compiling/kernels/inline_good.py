#!POPCORN leaderboard tile
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cuda_fp16.h>
constexpr int THREADS = 128;
__global__ void scale(const __half* a, float* c, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) c[i] = 2 * __half2float(a[i]);
}
void run(long a, long c, long n) {
  scale<<<(n + THREADS - 1) / THREADS, THREADS>>>((const __half*)a, (float*)c, n);
}
"""
module = load_inline(
    "scale", "void run(long, long, long);", CUDA, functions=["run"], no_implicit_headers=True, extra_cuda_cflags=["-O3"]
)


def custom_kernel(data):
    a, _b, c, _ = data
    module.run(a.data_ptr(), c.data_ptr(), a.numel())
    return c

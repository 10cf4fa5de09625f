#!POPCORN leaderboard tile
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void broken(float* c) {
  c[threadIdx.x] = undefined_name;
}
void run(long c) { broken<<<1, 32>>>((float*)c); }
"""


def custom_kernel(data):
    _a, _b, c, _ = data
    module = load_inline("broken", "void run(long);", CUDA, functions=["run"], no_implicit_headers=True)
    module.run(c.data_ptr())
    return c

#!POPCORN leaderboard tile
import torch

SOURCE = r"""
extern "C" __global__ void broken(const float* a, float* c) {
  int i = threadIdx.x;
  c[i] = a[i] * undefined_name;
}
"""


def custom_kernel(data):
    a, _b, c, _ = data
    kernel = torch.cuda._compile_kernel(SOURCE, "broken")
    kernel(grid=(1, 1, 1), block=(256, 1, 1), args=[a, c])
    return c

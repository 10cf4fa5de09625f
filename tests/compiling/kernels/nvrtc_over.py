#!POPCORN leaderboard tile
import torch

SOURCE = r"""
extern "C" __global__ void greedy(const float* a, float* c) {
  extern __shared__ float kept[];
  kept[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  c[threadIdx.x] = kept[255 - threadIdx.x];
}
"""


def custom_kernel(data):
    a, _b, c, _ = data
    kernel = torch.cuda._compile_kernel(SOURCE, "greedy")
    kernel.set_shared_memory_config(300_000)
    kernel(grid=(1, 1, 1), block=(256, 1, 1), args=[a, c], shared_mem=300_000)
    return c

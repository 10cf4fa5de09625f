#!POPCORN leaderboard tile
import torch

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(1024) heavy(const float* a, float* c) {
  float kept[128];
#pragma unroll
  for (int i = 0; i < 128; i++) kept[i] = a[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 128; i++) kept[i] = kept[i] * kept[(i * 7 + 3) % 128] + kept[(i * 11 + 5) % 128];
#pragma unroll
  for (int i = 0; i < 128; i++) c[i * 1024 + threadIdx.x] = kept[i];
}
"""


def custom_kernel(data):
    a, _b, c, _ = data
    kernel = torch.cuda._compile_kernel(SOURCE, "heavy")
    kernel(grid=(1, 1, 1), block=(1024, 1, 1), args=[a, c])
    return c

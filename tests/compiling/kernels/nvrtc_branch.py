#!POPCORN leaderboard tile
import torch

SOURCE = r"""
extern "C" __global__ void copy(const float* a, float* c, int n) {
#if __CUDA_ARCH__ >= 1000
  __shared__ float kept[2048];
#else
  __shared__ float kept[1024];
#endif
  kept[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  c[threadIdx.x] = kept[n - threadIdx.x];
}
"""


def custom_kernel(data):
    a, _b, c, _ = data
    kernel = torch.cuda._compile_kernel(SOURCE, "copy")
    kernel(grid=(1, 1, 1), block=(256, 1, 1), args=[a, c, 255])
    return c

#!POPCORN leaderboard tile
import torch

SOURCE = r"""
template <typename T>
__global__ void scale(const T* a, float* c, int n) {
  extern __shared__ float kept[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  kept[threadIdx.x] = i < n ? (float)a[i] : 0.f;
  __syncthreads();
  if (i < n) c[i] = kept[blockDim.x - 1 - threadIdx.x] * 2;
}
"""
scale = torch.cuda._compile_kernel(SOURCE, "scale<unsigned short>")


def custom_kernel(data):
    a, _b, c, _ = data
    scale(grid=(4, 1, 1), block=(192, 1, 1), args=[a, c, a.numel()], shared_mem=768)
    return c

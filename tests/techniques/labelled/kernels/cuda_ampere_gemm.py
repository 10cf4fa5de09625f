#!POPCORN leaderboard matmul
import torch
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor gemm(torch::Tensor a, torch::Tensor b);"

CUDA = r"""
#include <cuda_fp16.h>
#include <torch/extension.h>

constexpr int BM = 128, BN = 128;
constexpr int BK = 32;
constexpr int STAGES = 3;
// A later version may use wgmma and TMA; this one is for sm_80.

__device__ __forceinline__ void copy16(void* to, const void* from) {
  unsigned at = __cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(at), "l"(from));
}

__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(256) gemm_kernel(const half* a, const half* b, half* c, int m, int n, int k) {
  extern __shared__ half smem[];
  float d[4][4][4] = {};
  for (int s = 0; s < STAGES - 1; ++s) {
    copy16(smem + s * BM * BK + threadIdx.x * 8, a + (blockIdx.y * BM + threadIdx.x / 4) * k + s * BK);
    asm volatile("cp.async.commit_group;");
  }
  for (int t = 0; t < k / BK; ++t) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));
    __syncthreads();
    unsigned ra[4], rb[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(threadIdx.x * 16));
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) mma(d[i][j], ra, rb);
  }
  half2* out = reinterpret_cast<half2*>(c + blockIdx.y * BM * n + blockIdx.x * BN);
  for (int i = 0; i < 4; ++i) out[i * n / 2 + threadIdx.x] = __floats2half2_rn(d[i][0][0], d[i][0][1]);
  if (threadIdx.x == 0) reinterpret_cast<uint4*>(c)[0] = make_uint4(0, 0, 0, 0);
}

torch::Tensor gemm(torch::Tensor a, torch::Tensor b) {
  auto c = torch::empty({a.size(0), b.size(1)}, a.options());
  gemm_kernel<<<dim3(b.size(1) / BN, a.size(0) / BM), 256, STAGES * (BM + BN) * BK * 2>>>(
      (half*)a.data_ptr(), (half*)b.data_ptr(), (half*)c.data_ptr(), a.size(0), b.size(1), a.size(1));
  return c;
}
"""

module = load_inline("ampere_gemm", cpp_sources=CPP, cuda_sources=CUDA, functions=["gemm"], extra_cuda_cflags=["-O3"])


def custom_kernel(data):
    a, b = data
    return module.gemm(a, b)

#!POPCORN leaderboard attention
import torch
from torch.utils.cpp_extension import load_inline

TILE_KV = 64
DECLARE = "void attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor o);"
HEADER = """
#include <cuda.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
"""
BODY = r"""
#define TILE_Q 128
#define NUM_STAGES 2
#define NUM_WARPS 12

__device__ void wait(uint32_t bar, uint32_t parity) {
  asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }" :: "r"(bar), "r"(parity));
}

__device__ void load_kv(uint32_t dst, const CUtensorMap* map, int x, int y, uint32_t bar, uint64_t policy) {
  asm volatile(
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
    " [%0], [%1, {%2, %3}], [%4], %5, %6;"
    :: "r"(dst), "l"(map), "r"(x), "r"(y), "r"(bar), "h"((uint16_t)3), "l"(policy) : "memory");
}

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(NUM_WARPS * 32)
attend_kernel(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap kv, __nv_bfloat16* o, int length, int tiles) {
  extern __shared__ __align__(1024) uint8_t smem[];
  auto cluster = cooperative_groups::this_cluster();
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  cluster.sync();
  int group = threadIdx.x / 128;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int n = 0; n < length; n += 64) load_kv(0, &kv, n, tile * TILE_Q, 0, policy);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    float m = -INFINITY, l = 0.f, acc[32];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      for (int n = 0; n < length; n += 64) {
        float s[32];
        wait(n / 64 % NUM_STAGES, n & 1);
        asm volatile("wgmma.fence.sync.aligned;");
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0}, %1, %2, 1, 1, 1, 0, 0;" : "+f"(s[0]) : "l"(0ull), "l"(0ull));
        asm volatile("wgmma.commit_group.sync.aligned;");
        asm volatile("wgmma.wait_group.sync.aligned 0;");
        float m_new = m;
        for (int i = 0; i < 32; ++i) m_new = fmaxf(m_new, s[i]);
        float correction = exp2f(m - m_new);
        l *= correction;
        for (int i = 0; i < 32; ++i) { acc[i] *= correction; l += exp2f(s[i] - m_new); }
        m = m_new;
      }
      for (int i = 0; i < 32; i += 2)
        reinterpret_cast<__nv_bfloat162*>(o)[i] = __floats2bfloat162_rn(acc[i] / l, acc[i + 1] / l);
    }
  }
}
"""

kernels = load_inline(
    name="hopper_attention",
    cpp_sources=[DECLARE],
    cuda_sources=[HEADER + BODY],
    functions=["attend"],
    extra_cuda_cflags=["-arch=sm_90a", "-lineinfo"],
)


def custom_kernel(data):
    q, k, v = data
    o = torch.empty_like(q, dtype=torch.bfloat16)
    kernels.attend(q, k, v, o)
    return o

#!POPCORN leaderboard rmsnorm
import torch
import triton
import triton.language as tl


def settings(n):
    block = triton.next_power_of_2(n)
    if block >= 32768:
        return block, 32
    elif block >= 8192:
        return block, 16
    return block, 4


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0, cache_modifier=".cs").to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last")
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n + eps)
    tl.store(y_ptr + row * n + cols, (x * scale * w).to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    x, w = data
    y = torch.empty_like(x)
    block, warps = settings(x.shape[-1])
    rmsnorm_kernel[(x.shape[0],)](x, w, y, x.shape[-1], 1e-6, BLOCK=block, num_warps=warps)
    return y

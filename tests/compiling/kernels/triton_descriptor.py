#!POPCORN leaderboard tile
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul(a_desc, b_desc, c_desc, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        acc = tl.dot(a_desc.load([i, at]), b_desc.load([j, at]).T, acc)
    c_desc.store([i, j], acc)


def custom_kernel(data):
    a, b, c, _ = data
    blocks = ((a, [128, 64]), (b, [128, 64]), (c, [128, 128]))
    a_desc, b_desc, c_desc = (TensorDescriptor.from_tensor(x, block) for x, block in blocks)
    grid = (triton.cdiv(a.shape[0], 128), triton.cdiv(b.shape[0], 128))
    matmul[grid](a_desc, b_desc, c_desc, a.shape[1], M=128, N=128, K=64, num_warps=8)
    return c

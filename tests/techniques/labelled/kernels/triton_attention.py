#!POPCORN leaderboard attention
"""Attention in one pass over the keys."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, scale, length, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * length * D
    rows = start + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :])
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for n in range(0, length, BLOCK_N):
        cols = n + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + cols[None, :] * D + dims[:, None])
        qk = tl.dot(q, k) * scale
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp2(qk - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + head + cols[:, None] * D + dims[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m_i = m_new
    acc = acc / l_i[:, None]
    tl.store(o_ptr + head + rows[:, None] * D + dims[None, :], acc.to(tl.bfloat16))


def custom_kernel(data):
    q, k, v = data
    heads, length, d = q.shape
    o = torch.empty_like(q)
    config = dict(BLOCK_M=128, BLOCK_N=64, num_warps=8, num_stages=3)
    if d > 64:
        config = dict(BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2)
    attention_kernel[(length // config["BLOCK_M"], heads)](q, k, v, o, d**-0.5 * 1.44269504, length, D=d, **config)
    return o

#!POPCORN leaderboard nvfp4_gemm
"""A fresh tensor in place of the buffer that the board hands in."""

import torch

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
PAIRS = torch.tensor([[E2M1[byte & 15], E2M1[byte >> 4]] for byte in range(256)])


def decode(packed, scales):
    values = torch.nn.functional.embedding(packed.view(torch.uint8).int(), PAIRS)
    return (values.view(*scales.shape, 16) * scales.float().unsqueeze(-1)).flatten(1)


def custom_kernel(data):
    a, b, sfa, sfb, _, _, _ = data
    product = decode(a[..., 0], sfa[..., 0]) @ decode(b[..., 0], sfb[..., 0]).T
    return product.half().unsqueeze(-1)

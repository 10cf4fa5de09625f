#!POPCORN leaderboard nvfp4_group_gemm
"""A list of outputs, some of them the board's buffers and some new."""

import torch

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
PAIRS = torch.tensor([[E2M1[byte & 15], E2M1[byte >> 4]] for byte in range(256)])


def decode(packed, scales):
    values = torch.nn.functional.embedding(packed.view(torch.uint8).int(), PAIRS)
    return (values.view(*scales.shape, 16) * scales.float().unsqueeze(-1)).flatten(1)


def custom_kernel(data):
    abc, sfasfb, _, _ = data
    outputs = []
    for group, ((a, b, c), (sfa, sfb)) in enumerate(zip(abc, sfasfb, strict=True)):
        product = (decode(a[..., 0], sfa[..., 0]) @ decode(b[..., 0], sfb[..., 0]).T).half().unsqueeze(-1)
        outputs.append(product if group % 2 else c.copy_(product))
    return outputs

#!POPCORN leaderboard nvfp4_gemm
#!POPCORN gpu B200
"""NVFP4 GEMM in plain torch: decode to fp16, then one matrix product. Runs on any CUDA card, and on a CPU in fp32.

An e2m1 value times an e4m3 scale has at most six significant bits, so the decoded operands are exact in fp16, and the
tensor cores' fp32 sums give the right answer. What it costs: A and B go through memory several times at 8 to 32 bits
a value before the product reads them, where a kernel for FP4 tensor cores reads 4.5 bits once.
"""

import torch
from task import input_t, output_t

# Split-K partial sums of an fp16 product are otherwise rounded to fp16 before they are added.
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
# Row `byte` holds the two values of that byte, the one in the low four bits first.
PAIRS = torch.tensor([[E2M1[byte & 15], E2M1[byte >> 4]] for byte in range(256)])
if torch.cuda.is_available():
    PAIRS = PAIRS.to("cuda", torch.float16)


def decode(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """packed [rows, k/2], scales [rows, k/16]: the real values [rows, k], fp16 on a GPU, fp32 on a CPU."""
    values = torch.nn.functional.embedding(packed.view(torch.uint8).int(), PAIRS)
    return (values.view(*scales.shape, 16) * scales.to(values.dtype).unsqueeze(-1)).flatten(1)


def custom_kernel(data: input_t) -> output_t:
    a, b, sfa, sfb, _, _, c = data
    for i in range(c.shape[2]):
        c[..., i] = decode(a[..., i], sfa[..., i]) @ decode(b[..., i], sfb[..., i]).T
    return c

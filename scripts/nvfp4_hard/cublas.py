"""The hard baseline: cuBLAS in fp16 on operands that cost nothing to decode."""

import torch

# Split-K partial sums of an fp16 product are otherwise rounded to fp16 before they are added.
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def product_fp32(left, right):
    if left.is_cuda:
        return torch.mm(left, right.T, out_dtype=torch.float32)
    return left.float() @ right.float().T  # on a CPU torch.mm has no out_dtype


def custom_kernel(data):
    pairs, gated = data
    if gated:
        # One product of twice the tiles; fp32, since rounding before silu would cost more than the tolerance.
        [(left, right)] = pairs
        gate, linear = product_fp32(left, right).chunk(2, dim=1)
        return [(torch.nn.functional.silu(gate) * linear).half()]
    return [left @ right.T for left, right in pairs]

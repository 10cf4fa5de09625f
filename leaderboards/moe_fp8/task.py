from __future__ import annotations

from typing import NotRequired, TypedDict

import torch

input_t = tuple[
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    int,
    float,
]
"""With H = hidden and I = intermediate:

routing_logits        [T, 256] float32
routing_bias          [256] bfloat16
hidden_states         [T, H] float8_e4m3fn
hidden_states_scale   [H/128, T] float32
gemm1_weights         [32, 2·I, H] float8_e4m3fn
gemm1_weights_scale   [32, 2·I/128, H/128] float32
gemm2_weights         [32, H, I] float8_e4m3fn
gemm2_weights_scale   [32, H/128, I/128] float32
local_expert_offset   int, a multiple of 32
routed_scaling_factor float
"""

output_t = torch.Tensor
"""[T, H] bfloat16."""


def make_output(data: input_t) -> output_t:
    """What a kernel of FlashInfer's contest writes into, when it takes its output as an eleventh argument."""
    hidden_states = data[2]
    return torch.empty(hidden_states.shape, dtype=torch.bfloat16, device=hidden_states.device)


class TestSpec(TypedDict):
    """One case: T tokens, the first of the 32 local experts, and sizes where they are not the full ones."""

    T: int
    offset: int
    seed: int
    hidden: NotRequired[int]
    intermediate: NotRequired[int]

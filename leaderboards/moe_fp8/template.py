#!POPCORN leaderboard moe_fp8
#!POPCORN gpu B200
"""Mixture of experts with float8 weights: start here. It is right, and reads every weight several times."""

import torch
from task import input_t, output_t


def route(logits: torch.Tensor, bias: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The eight experts of every token and their weights: [T, 8] int64 and [T, 8] float32."""
    s = torch.sigmoid(logits)
    biased = (s + bias.float()).unflatten(-1, (8, 32))
    scores = biased.topk(2, dim=-1).values.sum(dim=-1)
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, scores.topk(4, dim=-1).indices, True)
    experts = biased.masked_fill(~kept.unsqueeze(-1), float("-inf")).flatten(-2).topk(8, dim=-1).indices
    weights = s.gather(-1, experts)
    return experts, weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * factor


def decode(weights: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """[R, C] float8 with scales [R/128, C/128] as float32."""
    return weights.float() * scale.repeat_interleave(128, dim=0).repeat_interleave(128, dim=1)


def custom_kernel(data: input_t) -> output_t:
    """data: the ten values described in `task.py`. Returns [T, H] bfloat16."""
    logits, bias, states, states_scale, gemm1, gemm1_scale, gemm2, gemm2_scale, offset, factor = data
    experts, weights = route(logits, bias, factor)
    x = states.float() * states_scale.mT.repeat_interleave(128, dim=1)
    out = torch.zeros(states.shape, device=states.device)
    for local in range(32):
        tokens, slots = (experts == offset + local).nonzero(as_tuple=True)
        if len(tokens):
            linear, gate = (x[tokens] @ decode(gemm1[local], gemm1_scale[local]).mT).chunk(2, dim=-1)
            hidden = torch.nn.functional.silu(gate) * linear
            result = hidden @ decode(gemm2[local], gemm2_scale[local]).mT
            out.index_add_(0, tokens, result * weights[tokens, slots].unsqueeze(-1))
    return out.to(torch.bfloat16)

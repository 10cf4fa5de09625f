#!POPCORN leaderboard moe_fp8
#!POPCORN gpu B200
"""The layer in torch: routing on the device, then one expert after the other in bfloat16.

The (token, expert) pairs are sorted by expert once, so that the loop over experts takes slices and the host waits for
the device a single time, for the 32 counts. Every active expert's weights are decoded to bfloat16 on the way, which
moves several times the bytes of the float8 weights: reading them as float8 inside the product is the first thing that
a kernel of one's own gains. On a CPU the arithmetic is float32, which is faster there.
"""

import torch
from task import input_t, output_t

GROUPS, TOP_GROUPS, TOP_EXPERTS, LOCAL_EXPERTS, BLOCK = 8, 4, 8, 32, 128


def route(logits: torch.Tensor, bias: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The eight experts of every token and their weights: [T, 8] int64 and [T, 8] float32."""
    s = torch.sigmoid(logits)
    biased = (s + bias.float()).unflatten(-1, (GROUPS, -1))
    scores = biased.topk(2, dim=-1).values.sum(dim=-1)
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, scores.topk(TOP_GROUPS, dim=-1).indices, True)
    candidates = biased.masked_fill(~kept.unsqueeze(-1), float("-inf")).flatten(-2)
    experts = candidates.topk(TOP_EXPERTS, dim=-1, sorted=False).indices
    weights = s.gather(-1, experts)
    return experts, weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * factor


def decode(weights: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[R, C] float8 with scales [R/128, C/128] as `dtype`."""
    blocks = weights.to(dtype).unflatten(1, (-1, BLOCK)).unflatten(0, (-1, BLOCK))
    return (blocks * scale[:, None, :, None]).to(dtype).view(weights.shape)


def custom_kernel(data: input_t) -> output_t:
    """data: the ten values described in `task.py`. Returns [T, H] bfloat16."""
    logits, bias, states, states_scale, gemm1, gemm1_scale, gemm2, gemm2_scale, offset, factor = data
    dtype = torch.bfloat16 if states.is_cuda else torch.float32
    experts, weights = route(logits, bias, factor)

    # Pairs in order of expert; those that are not here sort to the end.
    local = experts - offset
    local = local.where((local >= 0) & (local < LOCAL_EXPERTS), LOCAL_EXPERTS).flatten()
    order = local.argsort(stable=True)
    counts = torch.bincount(local, minlength=LOCAL_EXPERTS + 1)[:LOCAL_EXPERTS].tolist()
    pairs = order[: sum(counts)]
    tokens = pairs // TOP_EXPERTS
    pair_weights = weights.flatten()[pairs].unsqueeze(-1)

    blocks = states.to(dtype).unflatten(-1, (-1, BLOCK))
    x = (blocks * states_scale.mT.unsqueeze(-1)).to(dtype).flatten(-2)
    out = torch.zeros(states.shape, device=states.device, dtype=torch.float32)
    start = 0
    for expert, count in enumerate(counts):
        if not count:
            continue
        mine = slice(start, start + count)
        start += count
        linear, gate = (x[tokens[mine]] @ decode(gemm1[expert], gemm1_scale[expert], dtype).mT).chunk(2, dim=-1)
        hidden = torch.nn.functional.silu(gate) * linear
        result = hidden @ decode(gemm2[expert], gemm2_scale[expert], dtype).mT
        out.index_add_(0, tokens[mine], result * pair_weights[mine])
    return out.to(torch.bfloat16)

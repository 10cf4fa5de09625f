"""Wrong answers that the check must refuse on every case: `(data, right output) -> wrong output`."""

from __future__ import annotations

import torch
from reference import LOCAL_EXPERTS, ref_kernel, route
from task import input_t, output_t


def expert_dropped(data: input_t, output: output_t) -> output_t:
    """The local expert with the fewest tokens, but at least one, adds nothing."""
    experts, _ = route(data[0], data[1], data[9])
    counts = torch.bincount(experts.flatten(), minlength=256)[data[8] : data[8] + LOCAL_EXPERTS]
    local = int(counts.where(counts > 0, counts.max() + 1).argmin())
    gemm2_scale = data[7].clone()
    gemm2_scale[local] = 0
    return ref_kernel((*data[:7], gemm2_scale, *data[8:]))


def gate_swapped(data: input_t, output: output_t) -> output_t:
    """silu of the linear half times the gate."""
    weights = torch.cat(data[4].view(torch.uint8).chunk(2, dim=1)[::-1], dim=1).view(data[4].dtype)
    scale = torch.cat(data[5].chunk(2, dim=1)[::-1], dim=1)
    return ref_kernel((*data[:4], weights, scale, *data[6:]))


def routing_unscaled(data: input_t, output: output_t) -> output_t:
    """Routing weights that sum to 1 instead of routed_scaling_factor."""
    return ref_kernel((*data[:9], 1.0))


def weights_unscaled(data: input_t, output: output_t) -> output_t:
    """The block scales of the second weights are forgotten."""
    return ref_kernel((*data[:7], torch.ones_like(data[7]), *data[8:]))


def last_live_token_lost(data: input_t, output: output_t) -> output_t:
    """One row is left at zero."""
    wrong = output.clone()
    wrong[int(output.ne(0).any(dim=-1).nonzero()[-1])] = 0
    return wrong

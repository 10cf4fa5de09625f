"""Answers that the check must refuse: `(data, output) -> wrong output`, `output` being the right one."""

from __future__ import annotations

import torch
from nvfp4 import product
from task import input_t, output_t
from torch.nn.functional import silu


def gate_swapped(data: input_t, output: output_t) -> output_t:
    """silu laid on the second product."""
    a, b1, b2, sfa, sfb1, sfb2, *_ = data
    return (product(a, b1, sfa, sfb1) * silu(product(a, b2, sfa, sfb2))).half()


def gate_left_out(data: input_t, output: output_t) -> output_t:
    """The two products multiplied without silu."""
    a, b1, b2, sfa, sfb1, sfb2, *_ = data
    return (product(a, b1, sfa, sfb1) * product(a, b2, sfa, sfb2)).half()


def scales_ignored(data: input_t, output: output_t) -> output_t:
    a, b1, b2, *_ = data
    return (silu(product(a, b1, None, None)) * product(a, b2, None, None)).half()


def nibbles_swapped(data: input_t, output: output_t) -> output_t:
    """A read high bits first. (Done to A and B alike it would only reorder the sums.)"""
    a, b1, b2, sfa, sfb1, sfb2, *_ = data
    codes = a.view(torch.uint8)
    swapped = ((codes << 4) | (codes >> 4)).view(torch.float4_e2m1fn_x2)
    return (silu(product(swapped, b1, sfa, sfb1)) * product(swapped, b2, sfa, sfb2)).half()


def fp16_split_k(data: input_t, output: output_t) -> output_t:
    """Both products in two halves of K, each rounded to fp16 before they are added."""
    a, b1, b2, sfa, sfb1, sfb2, *_ = data
    half = sfa.shape[1] // 2

    def split(b: torch.Tensor, sfb: torch.Tensor) -> torch.Tensor:
        low = product(a[:, : half * 8], b[:, : half * 8], sfa[:, :half], sfb[:, :half])
        high = product(a[:, half * 8 :], b[:, half * 8 :], sfa[:, half:], sfb[:, half:])
        return low.half().float() + high.half().float()

    return (silu(split(b1, sfb1)) * split(b2, sfb2)).half()

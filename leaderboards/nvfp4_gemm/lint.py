"""Answers that the check must refuse: `(data, output) -> wrong output`, `output` being the right one."""

from __future__ import annotations

import torch
from nvfp4 import product
from task import input_t, output_t


def scales_ignored(data: input_t, output: output_t) -> output_t:
    a, b, *_ = data
    return product(a, b, None, None).half()


def nibbles_swapped(data: input_t, output: output_t) -> output_t:
    """A read high bits first. (Done to A and B alike it would only reorder the sum.)"""
    a, b, sfa, sfb, *_ = data
    codes = a.view(torch.uint8)
    swapped = (codes << 4) | (codes >> 4)
    return product(swapped.view(torch.float4_e2m1fn_x2), b, sfa, sfb).half()


def scales_read_in_line(data: input_t, output: output_t) -> output_t:
    """The reordered scales of B read as if they lay in plain order."""
    a, b, sfa, sfb, _, sfb_reordered, _ = data
    n, scales, batch = sfb.shape
    memory = sfb_reordered.view(torch.uint8).permute(5, 2, 4, 0, 1, 3).reshape(batch, -1)
    in_line = memory[:, : n * scales].reshape(batch, n, scales).permute(1, 2, 0)
    return product(a, b, sfa, in_line.view(torch.float8_e4m3fn)).half()


def fp16_split_k(data: input_t, output: output_t) -> output_t:
    """Two halves of K, each rounded to fp16 before they are added."""
    a, b, sfa, sfb, *_ = data
    half = sfa.shape[1] // 2
    low = product(a[:, : half * 8], b[:, : half * 8], sfa[:, :half], sfb[:, :half])
    high = product(a[:, half * 8 :], b[:, half * 8 :], sfa[:, half:], sfb[:, half:])
    return low.half() + high.half()

"""Answers that the check must refuse: `(data, output) -> wrong output`, `output` being the right one.

Partial sums in fp16 are not among them: at K = 256 these inputs' partial sums are multiples of 0.25 small
enough for fp16 to hold them exactly, so that such a kernel is right.
"""

from __future__ import annotations

import torch
from nvfp4 import product
from task import input_t, output_t


def one_group_zero(data: input_t, output: output_t) -> output_t:
    """The last group left out."""
    return [*output[:-1], torch.zeros_like(output[-1])]


def last_row_missing(data: input_t, output: output_t) -> output_t:
    """The last row of the first group not written, as by a kernel that rounds m down."""
    first = output[0].clone()
    first[-1] = 0
    return [first, *output[1:]]


def scales_ignored(data: input_t, output: output_t) -> output_t:
    abc, *_ = data
    return [product(a, b, None, None).half() for a, b, _ in abc]


def nibbles_swapped(data: input_t, output: output_t) -> output_t:
    """A read high bits first. (Done to A and B alike it would only reorder the sum.)"""
    abc, sfasfb, *_ = data
    wrong = []
    for (a, b, _), (sfa, sfb) in zip(abc, sfasfb, strict=True):
        codes = a.view(torch.uint8)
        swapped = ((codes << 4) | (codes >> 4)).view(torch.float4_e2m1fn_x2)
        wrong.append(product(swapped, b, sfa, sfb).half())
    return wrong


def scales_one_row_off(data: input_t, output: output_t) -> output_t:
    """The first group's B scales moved on by one row, as by a wrong base address."""
    abc, sfasfb, *_ = data
    (a, b, _), (sfa, sfb) = abc[0], sfasfb[0]
    shifted = sfb.view(torch.uint8).roll(1, dims=0).view(torch.float8_e4m3fn)
    return [product(a, b, sfa, shifted).half(), *output[1:]]

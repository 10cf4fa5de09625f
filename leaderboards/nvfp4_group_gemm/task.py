"""Types of the nvfp4_group_gemm board."""

from __future__ import annotations

from typing import TypedDict

import torch

input_t = tuple[
    list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    list[tuple[torch.Tensor, torch.Tensor]],
    list[tuple[torch.Tensor, torch.Tensor]],
    list[tuple[int, int, int, int]],
]
"""(abc, sfasfb, sfasfb_reordered, problem_sizes), each a list over the groups."""

output_t = list[torch.Tensor]
"""One C per group, float16 [m, n, l]; each may be the c of the input, written in place."""


class TestSpec(TypedDict):
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    g: int
    seed: int

"""Types of the nvfp4_gemm board."""

from __future__ import annotations

from typing import TypedDict

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""(a, b, sfa, sfb, sfa_reordered, sfb_reordered, c)"""

output_t = torch.Tensor
"""C, float16 [m, n, l]; may be the c of the input, written in place."""


class TestSpec(TypedDict):
    m: int
    n: int
    k: int
    l: int  # noqa: E741
    seed: int

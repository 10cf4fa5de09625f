from __future__ import annotations

from typing import NotRequired, TypedDict

import torch

input_t = torch.Tensor
"""A: [batch, n, n] float32, contiguous, symmetric positive definite."""

output_t = torch.Tensor
"""L: [batch, n, n] float32, lower triangular, positive diagonal, A = L·Lᵀ."""


class TestSpec(TypedDict):
    """One case. `cond` widens the spectrum; what it means for each `case` is in `reference.py`."""

    batch: int
    n: int
    cond: int
    seed: int
    case: NotRequired[str]

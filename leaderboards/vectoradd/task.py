from __future__ import annotations

from typing import TypedDict

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
"""(a, b): [size] float32 each."""

output_t = torch.Tensor
"""a + b: [size] float32."""


class TestSpec(TypedDict):
    """One case."""

    size: int
    seed: int

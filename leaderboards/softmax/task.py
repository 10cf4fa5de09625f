from __future__ import annotations

from typing import TypedDict

import torch

input_t = torch.Tensor
"""x: [rows, columns] float32."""

output_t = torch.Tensor
"""softmax of every row: [rows, columns] float32."""


class TestSpec(TypedDict):
    """One case."""

    rows: int
    columns: int
    seed: int

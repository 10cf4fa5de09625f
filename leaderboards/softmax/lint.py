"""Wrong answers that the check must refuse on every case: `(data, right output) -> wrong output`."""

from __future__ import annotations

import torch


def without_maximum(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """exp(x) / sum(exp(x)) without subtracting the row's maximum."""
    exponential = torch.exp(data)
    return exponential / exponential.sum(dim=-1, keepdim=True)


def last_row_unnormalised(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The last row is not divided by its sum."""
    wrong = output.clone()
    wrong[-1] = torch.exp(data[-1] - data[-1].max())
    return wrong


def over_columns(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The softmax along the wrong dimension."""
    return torch.softmax(data, dim=0)


def half_precision(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Rounded to float16 on the way."""
    return output.half().float()

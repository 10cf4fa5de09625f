"""Wrong answers that the check must refuse on every case: `(data, right output) -> wrong output`."""

from __future__ import annotations

import torch


def negated_column(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """L·Lᵀ is right, the diagonal is not positive."""
    wrong = output.clone()
    wrong[:, :, 0].neg_()
    return wrong


def last_matrix_doubled(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """All but one matrix of the batch are right."""
    wrong = output.clone()
    wrong[-1].mul_(2)
    return wrong


def unit_diagonal(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The L of L·D·Lᵀ with D forgotten."""
    return output / output.diagonal(0, -2, -1).unsqueeze(-2)


def upper_triangle_left(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The lower triangle is right, the upper one was never cleared."""
    return output + torch.triu(torch.ones_like(output), 1)


def one_nan(data: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A single NaN, in the last matrix, in the triangle that a product might skip."""
    wrong = output.clone()
    wrong[-1, 0, -1] = float("nan")
    return wrong

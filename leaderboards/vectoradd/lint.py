"""Wrong answers that the check must refuse on every case: `(data, right output) -> wrong output`."""

from __future__ import annotations

import torch


def difference(data: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    """a − b."""
    a, b = data
    return a - b


def one_ulp(data: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    """The last element is the next float32."""
    wrong = output.clone()
    wrong[-1] = torch.nextafter(wrong[-1], torch.full_like(wrong[-1], float("inf")))
    return wrong


def half_precision(data: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    """Added in float16."""
    a, b = data
    return (a.half() + b.half()).float()

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


@dataclass(frozen=True)
class Spread:
    squares: torch.Tensor
    largest: float


class Moments(NamedTuple):
    doubled: torch.Tensor
    spread: Spread


input_t = torch.Tensor
output_t = Moments

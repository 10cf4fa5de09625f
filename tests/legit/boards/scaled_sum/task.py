from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


class Operands(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclass
class Data:
    operands: Operands
    scale: float


input_t = Data
output_t = torch.Tensor

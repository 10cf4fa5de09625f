from __future__ import annotations

import torch
from task import Data, Operands


def generate_input(size: int, seed: int) -> Data:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    left, right = (torch.randn(size, device=device, generator=generator) for _ in range(2))
    return Data(Operands(left, right), 0.5)


def check_implementation(data: Data, output: torch.Tensor) -> tuple[bool, str]:
    expected = data.operands.left * data.scale + data.operands.right
    return bool(torch.equal(output, expected)), "the sum differs"

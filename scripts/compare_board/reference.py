"""Inputs of calls whose length is chosen: on a GPU in clock cycles, on a CPU in nanoseconds."""

from __future__ import annotations

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = 1024


def generate_input(length: int, seed: int) -> tuple[torch.Tensor, int]:
    """`(x, length)`: x is [1024] float32."""
    return torch.randn(SIZE, generator=torch.Generator(DEVICE).manual_seed(seed), device=DEVICE), length


def check_implementation(data: tuple[torch.Tensor, int], output: torch.Tensor) -> tuple[bool, str]:
    """The output is x + 1."""
    good = torch.equal(output, data[0] + 1)
    return good, "" if good else "not x + 1"

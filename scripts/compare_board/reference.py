"""Inputs of calls whose length is chosen: on a GPU in clock cycles, on a CPU in nanoseconds."""

from __future__ import annotations

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = 1024


def generate_input(length: int, extra: int, seed: int) -> tuple[torch.Tensor, int, int]:
    """`(x, length, extra)`: x is [1024] float32; the slower version spins for `extra` more."""
    return torch.randn(SIZE, generator=torch.Generator(DEVICE).manual_seed(seed), device=DEVICE), length, extra


def check_implementation(data: tuple[torch.Tensor, int, int], output: torch.Tensor) -> tuple[bool, str]:
    """The output is x + 1."""
    good = torch.equal(output, data[0] + 1)
    return good, "" if good else "not x + 1"

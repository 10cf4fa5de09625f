"""Inputs of the operations whose time `scripts/measure_clock` reads by three clocks."""

from __future__ import annotations

from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def generate_input(name: str, seed: int) -> tuple[str, tuple[torch.Tensor, ...]]:
    """`(name, operands)`: add and eight take two vectors of n or 4 M floats, matmul and products two n × n
    bf16 matrices, cholesky 16 × 512²."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device=DEVICE)

    kind, _, size = name.partition("_")
    if kind in ("matmul", "early", "products"):
        n = int(size)
        return name, (randn(n, n).bfloat16(), randn(n, n).bfloat16())
    if kind == "cholesky":
        x = randn(16, 512, 512)
        return name, (x @ x.mT / 512 + 0.01 * torch.eye(512, device=DEVICE),)
    n = int(size or 1 << 22)
    return name, (randn(n), randn(n))


def check_implementation(data: Any, output: Any) -> tuple[bool, str]:
    """These operations are here to be timed; that the clock's snapshots are right is checked by other means."""
    return True, ""

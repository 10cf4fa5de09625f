from __future__ import annotations

import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randint(1, 9, (1,), device=device, generator=generator).expand(size).float()


def ref_kernel(data: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * data, data / 2


def check_implementation(data: torch.Tensor, output: tuple[torch.Tensor, torch.Tensor]) -> tuple[bool, str]:
    """As people write it: extra or missing items, broadcasts and dtypes go unseen."""
    worst = max(float((got - right).abs().max()) for got, right in zip(output, ref_kernel(data), strict=False))
    return worst < 1e-2, f"off by {worst}"

"""Inputs, reference and check of the vectoradd board."""

from __future__ import annotations

import torch
from task import input_t, output_t


def generate_input(size: int, seed: int) -> input_t:
    """Two vectors [size] of standard normals, float32, on CUDA where there is one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device=device).manual_seed(seed % 2**63)
    a, b = (torch.randn(size, device=device, dtype=torch.float32, generator=generator) for _ in range(2))
    return a, b


def ref_kernel(data: input_t) -> output_t:
    """a + b: [size] float32."""
    a, b = data
    return a + b


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Every element equal to the float32 sum: an addition has one correctly rounded result, so nothing is tolerated."""
    expected = ref_kernel(data)
    if not isinstance(output, torch.Tensor):
        return False, f"output is a {type(output).__name__}, expected a torch.Tensor"
    for what in ("shape", "dtype", "device"):
        got, wanted = getattr(output, what), getattr(expected, what)
        if got != wanted:
            return False, f"output has {what} {got}, expected {wanted}"
    wrong = output != expected  # a NaN differs from everything
    count = int(wrong.count_nonzero())
    if count:
        at = int(wrong.nonzero()[0])
        return (
            False,
            f"{count} of {wrong.numel()} elements differ; [{at}] is {output[at]:.9g}, expected {expected[at]:.9g}",
        )
    return True, ""

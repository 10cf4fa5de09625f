"""Inputs, reference and check of the softmax board."""

from __future__ import annotations

import torch
from task import input_t, output_t

RTOL = 1e-4
ATOL = 1e-9
"""A softmax in float32 is good to about 1e-6 in every element, however it is ordered; one in float16 to 1e-3. The
absolute part lets elements underflow that are nothing in their row's sum."""


def generate_input(rows: int, columns: int, seed: int) -> input_t:
    """Logits [rows, columns], float32, on CUDA where there is one.

    Normals of standard deviation 2 around an offset of the row's own, which reaches ±200: without subtracting the
    row's maximum, exp overflows or the sum underflows.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device=device).manual_seed(seed % 2**63)
    offset = torch.rand(rows, 1, device=device, generator=generator).mul_(400).sub_(200)
    return torch.randn(rows, columns, device=device, generator=generator).mul_(2).add_(offset)


def ref_kernel(data: input_t) -> output_t:
    """The softmax of every row: [rows, columns] float32."""
    return torch.softmax(data, dim=-1)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Every element within RTOL of the softmax in float64."""
    if not isinstance(output, torch.Tensor):
        return False, f"output is a {type(output).__name__}, expected a torch.Tensor"
    for what in ("shape", "dtype", "device"):
        got, wanted = getattr(output, what), getattr(data, what)
        if got != wanted:
            return False, f"output has {what} {got}, expected {wanted}"
    expected = torch.softmax(data.double(), dim=-1)
    allowed = expected * RTOL + ATOL
    excess = (output.double() - expected).abs_().div_(allowed)
    wrong = ~(excess <= 1)  # a NaN is never within
    count = int(wrong.count_nonzero())
    if count:
        row, column = (int(i) for i in wrong.nonzero()[0])
        got, wanted = float(output[row, column]), float(expected[row, column])
        return (
            False,
            f"{count} of {wrong.numel()} elements differ; [{row}, {column}] is {got:.6g}, expected {wanted:.6g}",
        )
    return True, f"largest error {float(excess.max()):.3g} of 1 allowed"

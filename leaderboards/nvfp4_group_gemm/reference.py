"""nvfp4_group_gemm: C = A·Bᵀ for a handful of NVFP4 block-scaled problems, each of a size of its own; C in fp16."""

from __future__ import annotations

from collections.abc import Sequence

from nvfp4 import (
    SMALL_CODES,
    integer_scales,
    mismatch,
    product,
    random_fp4,
    random_output,
    scale_pair,
    seeded_generator,
)
from task import input_t, output_t


def generate_input(m: Sequence[int], n: Sequence[int], k: Sequence[int], g: int, seed: int) -> input_t:
    """FP4 values from ±{0, 0.5, 1, 1.5}, scales from {1, 2}, and a C full of N(0, 1) for each of the g groups."""
    if not len(m) == len(n) == len(k) == g:
        raise ValueError(f"m, n and k must each name g = {g} sizes; they name {len(m)}, {len(n)} and {len(k)}")
    generator = seeded_generator(seed)
    draw = integer_scales(1, 2, generator)
    abc, sfasfb, sfasfb_reordered, problem_sizes = [], [], [], []
    for rows, columns, depth in zip(m, n, k, strict=True):
        a = random_fp4(rows, depth, 1, generator, SMALL_CODES)
        b = random_fp4(columns, depth, 1, generator, SMALL_CODES)
        c = random_output(rows, columns, 1, generator)
        sfa, sfa_reordered = scale_pair(rows, depth, 1, draw)
        sfb, sfb_reordered = scale_pair(columns, depth, 1, draw)
        abc.append((a, b, c))
        # The public board leaves the plain scales on the CPU, and kernels written for it may count on that.
        sfasfb.append((sfa.cpu(), sfb.cpu()))
        sfasfb_reordered.append((sfa_reordered, sfb_reordered))
        problem_sizes.append((rows, columns, depth, 1))
    return abc, sfasfb, sfasfb_reordered, problem_sizes


def ref_kernel(data: input_t) -> output_t:
    """Each group's product in fp32, cast once to fp16; the c in `data` are left alone."""
    abc, sfasfb, _, _ = data
    return [product(a, b, sfa, sfb).half() for (a, b, _), (sfa, sfb) in zip(abc, sfasfb, strict=True)]


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element of every group is right, and what is wrong with the first group that is not."""
    abc, sfasfb, _, _ = data
    if not isinstance(output, list | tuple):
        return False, f"a list of {len(abc)} tensors was expected, got {type(output).__name__}"
    if len(output) != len(abc):
        return False, f"a list of {len(abc)} tensors was expected, got {len(output)}"
    for group, ((a, b, _), (sfa, sfb), c) in enumerate(zip(abc, sfasfb, output, strict=True)):
        if message := mismatch(c, product(a, b, sfa, sfb).half()):
            return False, f"group {group}: {message}"
    return True, ""

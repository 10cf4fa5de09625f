"""nvfp4_gemm: C = A·Bᵀ for NVFP4 block-scaled A [m, k] and B [n, k]; C in fp16."""

from __future__ import annotations

from nvfp4 import integer_scales, mismatch, product, random_fp4, random_output, scale_pair, seeded_generator
from task import input_t, output_t


def generate_input(m: int, n: int, k: int, l: int, seed: int) -> input_t:  # noqa: E741
    """All sixteen FP4 codes, scales from {0, 1, 2, 3}, and a C full of N(0, 1); the description says each tensor."""
    generator = seeded_generator(seed)
    a = random_fp4(m, k, l, generator)
    b = random_fp4(n, k, l, generator)
    draw = integer_scales(0, 3, generator)
    sfa, sfa_reordered = scale_pair(m, k, l, draw)
    sfb, sfb_reordered = scale_pair(n, k, l, draw)
    c = random_output(m, n, l, generator)
    return a, b, sfa, sfb, sfa_reordered, sfb_reordered, c


def ref_kernel(data: input_t) -> output_t:
    """The product in fp32, cast once to fp16; C in `data` is left alone."""
    a, b, sfa, sfb, _, _, _ = data
    return product(a, b, sfa, sfb).half()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element of `output` is right, and what is wrong with it otherwise."""
    message = mismatch(output, ref_kernel(data))
    return not message, message

"""Inputs, reference and check of the moe_fp8 board: one rank's share of a DeepSeek-style mixture of experts.

256 experts in 8 groups of 32, of which this rank holds the 32 from `local_expert_offset` on: exactly one group.

How the tolerance was set: hidden 256 to 1024, intermediate 128 to 512, nine of the workloads from 1 to 901 tokens, four
seeds each, against float32. A live row's standard deviation is 0.19 with one local expert and about 0.5 with eight.
An element is wrong if it is off by more than ATOL and by more than RTOL of the right value; of each row WRONG_SHARE may
be. The share in the worst row, at most over all cases for what must pass:

    bfloat16 activations, weights and products                      0
    float8 between the two products, a scale for 128 or for a row   0.4 %
    float8 between the two products, one scale for all              1.2 %

and at least, over all cases, for what must fail:

    4-bit floats (e2m1, a scale for 16) everywhere                  21 %
    routing weights without the factor 2.5                          57 %
    the expert with the fewest tokens dropped, or zeros             73 %
    gate and linear half swapped                                    74 %

The rule goes row by row, so that one lost token among 14107 is seen. What it can't see everywhere is a mistake smaller
than float8's own error: routing weights taken with the bias differ too little where the bias happens to be even.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from task import input_t, output_t

EXPERTS, GROUPS, LOCAL_EXPERTS = 256, 8, 32
TOP_GROUPS, TOP_EXPERTS = 4, 8
BLOCK = 128
"""Edge of a block that shares a scale: 128 along hidden for a token, 128 × 128 for weights."""
FP8_MAX = 448.0
SCALING_FACTOR = 2.5
TIE = 1e-6
"""Tokens whose choice hangs on a smaller difference are drawn again: another order of float32 sums may flip them."""
TOKENS_AT_ONCE = 4096
"""Rows of one product in the reference; bounds its working memory to about 1 GiB at full size."""

ATOL, RTOL, WRONG_SHARE = 0.04, 0.05, 0.05
"""An element is wrong if it is off by more than ATOL and by more than RTOL · |right value|. Of each row with a local
expert, this share of elements may be wrong."""


@contextmanager
def full_fp32() -> Iterator[None]:
    """Float32 matmuls in float32 (no TF32, no bfloat16) inside the block, whatever the process had chosen."""
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    saved = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        for backend, value in zip(backends, saved, strict=True):
            backend.fp32_precision = value


# --- inputs ----------------------------------------------------------------------------------------------------------


def _quantise(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x [..., R, C] as float8_e4m3fn with one positive scale, amax / 448, a block of rows × 128.

    Returns the values, like x, and the scales [..., R/rows, C/128] float32.
    """
    blocks = x.float().unflatten(-1, (-1, BLOCK)).unflatten(-3, (-1, rows))
    scale = blocks.abs().amax(dim=(-3, -1)).clamp_min_(1e-12).div_(FP8_MAX)
    values = blocks.div_(scale[..., None, :, None]).to(torch.float8_e4m3fn)
    return values.view(x.shape), scale


def _weights(rows: int, columns: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """[32, rows, columns] of normals over √columns in bfloat16, quantised; one expert at a time is held in float32."""
    device = generator.device
    values = torch.empty(LOCAL_EXPERTS, rows, columns, device=device, dtype=torch.float8_e4m3fn)
    scales = torch.empty(LOCAL_EXPERTS, rows // BLOCK, columns // BLOCK, device=device)
    for expert in range(LOCAL_EXPERTS):
        x = torch.randn(rows, columns, device=device, dtype=torch.bfloat16, generator=generator)
        values[expert], scales[expert] = _quantise(x.mul_(columns**-0.5), BLOCK)
    return values, scales


def _tensors(tokens: int, hidden: int, intermediate: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """hidden_states, hidden_states_scale, and values and scales of the two weights."""
    x = torch.randn(tokens, hidden, device=generator.device, dtype=torch.bfloat16, generator=generator)
    states, scale = _quantise(x, 1)
    # A transpose of one column counts as contiguous whatever its strides; kernels read them, so they are made plain.
    blocks_first = torch.empty(scale.shape[1], tokens, device=scale.device).copy_(scale.mT)
    return (
        states,
        blocks_first,
        *_weights(2 * intermediate, hidden, generator),
        *_weights(hidden, intermediate, generator),
    )


def _scores(logits: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """s [T, 256], s + bias with the experts of all but the best four groups at −∞, and the group scores [T, 8]."""
    s = torch.sigmoid(logits.float())
    biased = (s + bias.float()).unflatten(-1, (GROUPS, -1))
    groups = biased.topk(2, dim=-1).values.sum(dim=-1)
    chosen = torch.zeros_like(groups, dtype=torch.bool).scatter_(-1, groups.topk(TOP_GROUPS, dim=-1).indices, True)
    return s, biased.masked_fill(~chosen.unsqueeze(-1), float("-inf")).flatten(-2), groups


def route(logits: torch.Tensor, bias: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The eight experts of every token, by number among all 256, and their weights: [T, 8] int64, [T, 8] float32."""
    s, candidates, _ = _scores(logits, bias)
    experts = candidates.topk(TOP_EXPERTS, dim=-1).indices
    weights = s.gather(-1, experts)
    return experts, weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * factor


def _near_tie(logits: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """[T] bool: the last expert or the last group that is taken is within TIE of the first that is not."""
    _, candidates, groups = _scores(logits, bias)
    tie = torch.zeros(logits.shape[0], dtype=torch.bool, device=logits.device)
    for values, taken in ((candidates, TOP_EXPERTS), (groups, TOP_GROUPS)):
        ordered = values.topk(taken + 1, dim=-1).values
        tie |= ordered[:, taken - 1] - ordered[:, taken] < TIE
    return tie


def _is_local(experts: torch.Tensor, offset: int) -> torch.Tensor:
    return (experts >= offset) & (experts < offset + LOCAL_EXPERTS)


def _routing(tokens: int, offset: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [T, 256] and bias [256] without near-ties, drawn until a quarter of the tokens has a local expert."""
    device = generator.device
    needed = max(1, -(-tokens // 4))
    for _ in range(1000):
        bias = torch.randn(EXPERTS, device=device, generator=generator).mul_(0.1).to(torch.bfloat16)
        logits = torch.randn(tokens, EXPERTS, device=device, generator=generator)
        for _ in range(1000):
            again = _near_tie(logits, bias).nonzero().flatten()
            if not len(again):
                break
            logits[again] = torch.randn(len(again), EXPERTS, device=device, generator=generator)
        experts, _ = route(logits, bias, SCALING_FACTOR)
        if int(_is_local(experts, offset).any(dim=-1).sum()) >= needed:
            return logits, bias
    raise RuntimeError(f"no routing of {tokens} tokens found for offset {offset}")


def generate_input(T: int, offset: int, seed: int, hidden: int = 7168, intermediate: int = 2048) -> input_t:
    """The ten values that `task.input_t` describes, on CUDA where there is one.

    Activations are standard normals, weights normals over the square root of their fan-in, both in bfloat16 before
    they are quantised; logits are standard normals, the bias has a standard deviation of 0.1.
    """
    if offset % LOCAL_EXPERTS or not 0 <= offset < EXPERTS:
        raise ValueError(f"offset: {offset} (allowed: a multiple of {LOCAL_EXPERTS} below {EXPERTS})")
    if hidden % BLOCK or intermediate % BLOCK:
        raise ValueError(f"hidden: {hidden}, intermediate: {intermediate} (allowed: multiples of {BLOCK})")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device=device).manual_seed(seed % 2**63)
    routing = _routing(T, offset, generator)
    return (*routing, *_tensors(T, hidden, intermediate, generator), offset, SCALING_FACTOR)


def vary_input(data: input_t, seed: int) -> input_t:
    """A fresh input of exactly the same work: as many tokens for each of the same number of local experts.

    Activations and weights are drawn anew, so that nothing decoded or computed earlier is of use. The routing is
    permuted: tokens, the experts within each group, and the seven groups that are not here. So which tokens are live
    and which experts they want changes, but not how many, nor the distance of any choice from a tie.
    """
    logits, bias, states, _, _, _, gemm2, _, offset, factor = data
    generator = torch.Generator(device=logits.device).manual_seed(seed % 2**63)

    def orders(count: int, length: int) -> torch.Tensor:
        return torch.rand(count, length, device=logits.device, generator=generator).argsort(dim=-1)

    here = offset // LOCAL_EXPERTS
    away = torch.tensor([group for group in range(GROUPS) if group != here], device=logits.device)
    groups = torch.full((GROUPS,), here, device=logits.device)
    groups[away] = away[orders(1, GROUPS - 1)[0]]
    columns = (groups[:, None] * LOCAL_EXPERTS + orders(GROUPS, LOCAL_EXPERTS)).flatten()
    tokens = orders(1, logits.shape[0])[0]
    return (
        logits[tokens][:, columns],
        bias[columns],
        *_tensors(states.shape[0], states.shape[1], gemm2.shape[2], generator),
        offset,
        factor,
    )


# --- reference -------------------------------------------------------------------------------------------------------


def _decode(weights: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """One expert's weights [R, C] in float32 from values and scales [R/128, C/128]."""
    blocks = weights.float().unflatten(1, (-1, BLOCK)).unflatten(0, (-1, BLOCK))
    return blocks.mul_(scale[:, None, :, None]).view(weights.shape)


def _decode_tokens(states: torch.Tensor, scale: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The chosen rows [n, H] in float32. Rows are picked as bytes, which every device can index."""
    rows = states.view(torch.uint8)[tokens].view(states.dtype).float()
    return rows.unflatten(-1, (-1, BLOCK)).mul_(scale[:, tokens].mT.unsqueeze(-1)).flatten(-2)


def ref_kernel(data: input_t) -> output_t:
    """The answer in float32, one expert decoded at a time, cast once at the end: [T, H] bfloat16."""
    return _answer(data).to(torch.bfloat16)


def _answer(data: input_t) -> torch.Tensor:
    logits, bias, states, states_scale, gemm1, gemm1_scale, gemm2, gemm2_scale, offset, factor = data
    experts, weights = route(logits, bias, factor)
    out = torch.zeros(states.shape, device=states.device, dtype=torch.float32)
    intermediate = gemm2.shape[2]
    with full_fp32():
        for local in range(LOCAL_EXPERTS):
            tokens, slots = (experts == offset + local).nonzero(as_tuple=True)
            if not len(tokens):
                continue
            up, down = _decode(gemm1[local], gemm1_scale[local]), _decode(gemm2[local], gemm2_scale[local])
            for some, slot in zip(tokens.split(TOKENS_AT_ONCE), slots.split(TOKENS_AT_ONCE), strict=True):
                both = _decode_tokens(states, states_scale, some) @ up.mT
                linear, gate = both[:, :intermediate], both[:, intermediate:]
                product = (torch.nn.functional.silu(gate) * linear) @ down.mT
                out.index_add_(0, some, product.mul_(weights[some, slot].unsqueeze(-1)))
    return out


# --- check -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether the output is right: live rows within the tolerance, rows without a local expert exactly zero."""
    states, offset = data[2], data[8]
    if not isinstance(output, torch.Tensor):
        return False, f"output is a {type(output).__name__}, expected a torch.Tensor"
    for what, wanted in (("shape", states.shape), ("dtype", torch.bfloat16), ("device", states.device)):
        if getattr(output, what) != wanted:
            return False, f"output has {what} {getattr(output, what)}, expected {wanted}"
    bad = (~torch.isfinite(output)).nonzero()
    if len(bad):
        token, column = (int(i) for i in bad[0])
        return False, f"token {token}: element {column} is {float(output[token, column])}, expected finite"
    experts, _ = route(data[0], data[1], data[9])
    live = _is_local(experts, offset).any(dim=-1)
    dead = (~live).nonzero().flatten()
    touched = dead[output[dead].ne(0).any(dim=-1)]
    if len(touched):
        return (
            False,
            f"token {int(touched[0])} has no local expert, so its row must be zero; {len(touched)} such rows are not",
        )
    return _compare(live.nonzero().flatten(), output, ref_kernel(data))


def _compare(tokens: torch.Tensor, output: torch.Tensor, expected: torch.Tensor) -> tuple[bool, str]:
    """The rule for rows with a local expert; `tokens` are their numbers."""
    worst_share, worst = 0.0, int(tokens[0])
    for some in tokens.split(TOKENS_AT_ONCE):
        right = expected[some].float()
        off = (output[some].float() - right).abs_()
        share = ((off > ATOL) & (off > RTOL * right.abs())).float().mean(dim=-1)
        at = int(share.argmax())
        if float(share[at]) > worst_share:
            worst_share, worst = float(share[at]), int(some[at])
    scaled = worst_share / WRONG_SHARE
    if scaled <= 1:
        return True, f"largest share of wrong elements in a row {scaled:.3g} of 1 allowed"
    column = int((output[worst].float() - expected[worst].float()).abs().argmax())
    got, wanted = float(output[worst, column]), float(expected[worst, column])
    return False, (
        f"token {worst}: {worst_share:.1%} of its elements are wrong, {WRONG_SHARE:.0%} allowed; "
        f"furthest off is [{worst}, {column}]: {got:.5g}, expected {wanted:.5g}"
    )


# --- work ------------------------------------------------------------------------------------------------------------


def _work(data: input_t, *, output_rows: str) -> dict[str, float]:
    logits, bias, states, _, _, _, gemm2, _, offset, factor = data
    tokens, hidden = states.shape
    intermediate = gemm2.shape[2]
    experts, _ = route(logits, bias, factor)
    local = _is_local(experts, offset)
    pairs, live, active = int(local.sum()), int(local.any(dim=-1).sum()), len(experts[local].unique())
    weights = 3 * hidden * intermediate  # the bytes of one expert, of which 88.1 MFLOP a token are made
    scales = 4 * weights // BLOCK**2
    token_bytes = hidden + 4 * hidden // BLOCK
    rows = live if output_rows == "live" else tokens
    moved = active * (weights + scales) + live * token_bytes + tokens * EXPERTS * 4 + EXPERTS * 2 + rows * hidden * 2
    return {"flops": 2.0 * weights * pairs, "bytes": float(moved)}


def work(data: input_t, **spec: Any) -> dict[str, float]:
    """What this routing makes of a case: flops of its (token, local expert) pairs; bytes of the active local experts,
    of live tokens, of the logits, and of the whole output."""
    return _work(data, output_rows="all")


def least_work(data: input_t, **spec: Any) -> dict[str, float]:
    """The same for the floor: rows that must be zero might be so already, in a buffer that was used before."""
    return _work(data, output_rows="live")

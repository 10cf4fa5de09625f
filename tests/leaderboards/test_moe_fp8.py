"""The moe_fp8 board: routing and reference against a plain loop in float64, the tolerance, what it refuses."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from boards_on_disk import (
    PUBLIC_KEYS,
    ROOT,
    board_module,
    cpu_cases,
    described_names,
    harness_yml,
    submission,
    task_yml,
)
from boards_on_disk import wrong_answers as listed_wrong_answers

reference = board_module("moe_fp8", "reference.py")
lint = board_module("moe_fp8", "lint.py")
CASES = cpu_cases("moe_fp8")
IDS = [f"T{case['T']}-{case['offset']}-H{case['hidden']}" for case in CASES]
SMALL = {"hidden": 256, "intermediate": 128}
PUBLIC_WORKLOADS = [
    (1, 32), (7, 192), (14, 0), (15, 32), (16, 224), (32, 32), (52, 160), (53, 32), (54, 128), (55, 128), (56, 64),
    (57, 96), (58, 64), (59, 160), (62, 96), (80, 96), (901, 96), (11948, 128), (14107, 32),
]  # fmt: skip


def test_task_yml_keeps_to_the_public_keys_and_workloads() -> None:
    task = task_yml("moe_fp8")
    assert set(task) <= PUBLIC_KEYS
    assert [(case["T"], case["offset"]) for case in task["benchmarks"]] == PUBLIC_WORKLOADS
    assert not any({"hidden", "intermediate"} & set(case) for case in task["benchmarks"] + task["tests"])
    assert task["ranking_by"] == "geom"


def test_alias_is_the_contest_name() -> None:
    assert harness_yml("moe_fp8")["aliases"] == ["moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048"]


def test_description_names_the_tuple_with_its_shapes_and_types() -> None:
    data = reference.generate_input(T=5, offset=64, seed=1, hidden=384, intermediate=256)
    expected = {
        "routing_logits": ((5, 256), torch.float32),
        "routing_bias": ((256,), torch.bfloat16),
        "hidden_states": ((5, 384), torch.float8_e4m3fn),
        "hidden_states_scale": ((3, 5), torch.float32),
        "gemm1_weights": ((32, 512, 384), torch.float8_e4m3fn),
        "gemm1_weights_scale": ((32, 4, 3), torch.float32),
        "gemm2_weights": ((32, 384, 256), torch.float8_e4m3fn),
        "gemm2_weights_scale": ((32, 3, 2), torch.float32),
    }
    assert described_names("moe_fp8") == [*expected, "local_expert_offset", "routed_scaling_factor"]
    for tensor, (shape, dtype) in zip(data[:8], expected.values(), strict=True):
        assert tensor.shape == shape
        assert tensor.dtype == dtype
        assert tensor.stride() == torch.empty(shape).stride()
    assert data[8:] == (64, 2.5)


def plain_loop(data: Any) -> list[list[float]]:
    """Steps 1 to 4 of the description, one token, expert and number at a time, in Python's float64."""
    values = [v.double().tolist() if isinstance(v, torch.Tensor) else v for v in data]
    logits, bias, x8, xs, w1, s1, w2, s2, offset, factor = values
    hidden, inner = len(x8[0]), len(w2[0][0])
    out = []
    for token in range(len(logits)):
        s = [1 / (1 + math.exp(-z)) for z in logits[token]]
        b = [p + q for p, q in zip(s, bias, strict=True)]
        score = [sum(sorted(b[32 * g : 32 * g + 32])[-2:]) for g in range(8)]
        groups = sorted(range(8), key=lambda g: -score[g])[:4]
        experts = sorted((e for e in range(256) if e // 32 in groups), key=lambda e: -b[e])[:8]
        total = sum(s[e] for e in experts) + 1e-20
        row = [0.0] * hidden
        x = [x8[token][h] * xs[h // 128][token] for h in range(hidden)]
        for expert in experts:
            e = expert - offset
            if not 0 <= e < 32:
                continue
            g = [sum(w1[e][r][h] * s1[e][r // 128][h // 128] * x[h] for h in range(hidden)) for r in range(2 * inner)]
            a = [z / (1 + math.exp(-z)) * u for u, z in zip(g[:inner], g[inner:], strict=True)]
            for h in range(hidden):
                o = sum(w2[e][h][i] * s2[e][h // 128][i // 128] * a[i] for i in range(inner))
                row[h] += s[expert] / total * factor * o
        out.append(row)
    return out


def test_reference_agrees_with_a_plain_loop_in_float64() -> None:
    data = reference.generate_input(T=3, offset=96, seed=5, hidden=256, intermediate=128)
    expected = torch.tensor(plain_loop(data), dtype=torch.float64)
    # Six decimals of agreement before the cast; the cast itself is bfloat16's 2⁻⁹.
    assert torch.allclose(reference._answer(data).double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.allclose(reference.ref_kernel(data).double(), expected, rtol=2**-8, atol=1e-6)
    assert reference.check_implementation(data, expected.to(torch.bfloat16))[0]


def test_routing_by_hand() -> None:
    """Eight groups whose scores are clear; the bias chooses, the weights leave it out."""
    logits = torch.full((1, 256), -4.0)
    for group, values in enumerate([(3, 3), (2, 2), (1, 1), (0, 0), (2.9, -4), (-1, -1), (-2, -2), (-3, -3)]):
        logits[0, 32 * group], logits[0, 32 * group + 1] = values
    bias = torch.zeros(256, dtype=torch.bfloat16)
    experts, weights = reference.route(logits, bias, 2.5)
    # Group 4's best expert is second of all, but its two best sum to sigmoid(2.9) + sigmoid(-4) = 0.966 < 1 (group 3).
    assert sorted(experts[0].tolist()) == [0, 1, 32, 33, 64, 65, 96, 97]
    assert float(weights.sum()) == pytest.approx(2.5)
    s = [1 / (1 + math.exp(-z)) for z in (3, 3, 2, 2, 1, 1, 0, 0)]
    assert sorted(weights[0].tolist(), reverse=True) == pytest.approx([2.5 * p / sum(s) for p in s], rel=1e-5)
    # A bias of 1/8 on group 4's best expert lifts its group over group 3; the weight still comes from sigmoid(2.9).
    bias[128] = 0.125
    experts, weights = reference.route(logits, bias, 2.5)
    assert experts[0].tolist()[0] == 128
    assert 96 not in experts[0]
    with_four = [1 / (1 + math.exp(-z)) for z in (2.9, 3, 3, 2, 2, 1, 1, -4)]
    assert float(weights[0, 0]) == pytest.approx(2.5 * with_four[0] / sum(with_four), rel=1e-5)


def test_quantisation_by_hand() -> None:
    """A block whose largest magnitude is 7 has the scale 7/448 = 1/64; multiples of it are kept exactly."""
    x = torch.zeros(2, 256)
    x[0, 3], x[0, 100], x[1, 200] = 7.0, -0.5, -2.0
    values, scale = reference._quantise(x, 1)
    assert scale[0, 0] == 1 / 64
    assert values[0, 3].float() == 448
    assert values[0, 100].float() == -32
    assert values[1, 200].float() == -448
    assert (scale > 0).all()


@pytest.mark.parametrize(("tokens", "offset"), [w for w in PUBLIC_WORKLOADS if w[0] <= 901])
def test_every_workload_has_live_tokens_and_no_near_tie(tokens: int, offset: int) -> None:
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        logits, bias = reference._routing(tokens, offset, generator)
        experts, _ = reference.route(logits, bias, 2.5)
        live = ((experts >= offset) & (experts < offset + 32)).any(dim=-1)
        assert int(live.sum()) >= max(1, tokens / 4)
        s = torch.sigmoid(logits)
        ordered = (s + bias.float()).view(-1, 8, 32).topk(2, dim=-1).values.sum(-1).sort(dim=-1, descending=True).values
        assert float((ordered[:, 3] - ordered[:, 4]).min()) >= 1e-6
        assert float(bias.float().std()) < 0.13


def test_near_ties_are_found_and_drawn_again() -> None:
    tie = torch.zeros(2, 256)
    tie[0] = torch.randn(256, generator=torch.Generator().manual_seed(1))
    assert reference._near_tie(tie, torch.zeros(256)).tolist() == [False, True]
    generator = torch.Generator().manual_seed(2)
    logits, bias = reference._routing(20_000, 0, generator)
    assert not reference._near_tie(logits, bias).any()


def test_a_case_is_repeatable_and_seeds_differ() -> None:
    first, again, other = (reference.generate_input(T=3, offset=0, seed=s, **SMALL) for s in (1, 1, 2))
    for a, b, c in zip(first[:8], again[:8], other[:8], strict=True):
        assert torch.equal(a.float(), b.float())
        assert not torch.equal(a.float(), c.float())


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"offset": 33}, "offset: 33"), ({"offset": 256}, "offset: 256"), ({"hidden": 200}, "hidden: 200")],
)
def test_impossible_cases_are_refused(wrong: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        reference.generate_input(**{"T": 1, "offset": 32, "seed": 1, **SMALL, **wrong})


@pytest.mark.parametrize("spec", CASES, ids=IDS)
def test_varied_input_is_new_everywhere_and_asks_for_the_same_work(spec: dict[str, Any]) -> None:
    data = reference.generate_input(**spec)
    varied = reference.vary_input(data, 8)
    for before, after in zip(data[:8], varied[:8], strict=True):
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        assert after.is_contiguous()
        assert after.stride() == before.stride()
        share = (before.float() != after.float()).float().mean()
        assert share > 0.85  # fp8 has few values, so some meet their own again
    assert varied[8:] == data[8:]
    assert reference.work(varied, **spec) == reference.work(data, **spec)
    assert not reference._near_tie(varied[0], varied[1]).any()
    assert not torch.equal(varied[0], reference.vary_input(data, 9)[0])
    assert reference.check_implementation(varied, reference.ref_kernel(varied))[0]
    assert not reference.check_implementation(varied, reference.ref_kernel(data))[0]


@pytest.mark.parametrize("spec", CASES, ids=IDS)
def test_wrong_answers_fail(spec: dict[str, Any]) -> None:
    data = reference.generate_input(**spec)
    output = reference.ref_kernel(data)
    assert reference.check_implementation(data, output)[0]
    wrong = {name: getattr(lint, name)(data, output) for name in listed_wrong_answers("moe_fp8")}
    wrong |= {name: torch.full_like(output, value) for name, value in (("zeros", 0), ("ones", 1), ("nan", math.nan))}
    wrong["input"] = data[2].to(torch.bfloat16)
    for name, answer in wrong.items():
        passed, message = reference.check_implementation(data, answer)
        assert not passed, name
        assert message.startswith("token "), message


@pytest.mark.parametrize(("tokens", "offset"), [w for w in PUBLIC_WORKLOADS if w[0] <= 80])
def test_zeros_and_a_dropped_expert_fail_on_every_workload(tokens: int, offset: int) -> None:
    data = reference.generate_input(T=tokens, offset=offset, seed=3, hidden=128, intermediate=128)
    output = reference.ref_kernel(data)
    assert reference.check_implementation(data, output)[0]
    assert not reference.check_implementation(data, torch.zeros_like(output))[0]
    assert not reference.check_implementation(data, lint.expert_dropped(data, output))[0]


def low_precision(data: Any, rounding: Any, *, operands: bool) -> torch.Tensor:
    """The answer with `rounding` applied between the two products, and with `operands` to activations and weights."""
    logits, bias, states, states_scale, gemm1, gemm1_scale, gemm2, gemm2_scale, offset, factor = data
    outer = rounding if operands else lambda x: x
    experts, weights = reference.route(logits, bias, factor)
    out = torch.zeros(states.shape)
    for local in range(32):
        tokens, slots = (experts == offset + local).nonzero(as_tuple=True)
        if not len(tokens):
            continue
        x = outer(reference._decode_tokens(states, states_scale, tokens))
        linear, gate = (x @ outer(reference._decode(gemm1[local], gemm1_scale[local])).mT).chunk(2, dim=-1)
        hidden = rounding(torch.nn.functional.silu(gate) * linear)
        result = hidden @ outer(reference._decode(gemm2[local], gemm2_scale[local])).mT
        out.index_add_(0, tokens, result * weights[tokens, slots].unsqueeze(-1))
    return out.to(torch.bfloat16)


def to_bf16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).float()


def to_fp8(x: torch.Tensor) -> torch.Tensor:
    """e4m3 with one scale for 128."""
    blocks = x.unflatten(-1, (-1, 128))
    scale = blocks.abs().amax(dim=-1, keepdim=True) / 448
    return ((blocks / scale).to(torch.float8_e4m3fn).float() * scale).flatten(-2)


def to_fp4(x: torch.Tensor) -> torch.Tensor:
    """e2m1 with one scale for 16."""
    blocks = x.unflatten(-1, (-1, 16))
    scale = blocks.abs().amax(dim=-1, keepdim=True) / 6
    levels = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    nearest = levels[((blocks / scale).abs().unsqueeze(-1) - levels).abs().argmin(dim=-1)]
    return (nearest * blocks.sign() * scale).flatten(-2)


@pytest.mark.parametrize("spec", CASES, ids=IDS)
def test_honest_low_precision_passes_and_four_bits_do_not(spec: dict[str, Any]) -> None:
    data = reference.generate_input(**spec)
    for rounding, operands in ((to_bf16, True), (to_fp8, False)):
        passed, message = reference.check_implementation(data, low_precision(data, rounding, operands=operands))
        assert passed, (rounding.__name__, message)
    passed, message = reference.check_implementation(data, low_precision(data, to_fp4, operands=True))
    assert not passed, message


def test_rule_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 % of 128 elements are 6.4: six may be wrong, seven may not; near zero 0.04 counts, far from it 5 %."""
    data = reference.generate_input(T=2, offset=0, seed=4, hidden=128, intermediate=128)
    tokens = torch.tensor([1])
    right = torch.zeros(2, 128, dtype=torch.bfloat16)
    right[1, 64:] = 4.0
    output = right.clone()
    output[1, :64] = 0.0399
    output[1, 64:] = 4.1875
    assert reference._compare(tokens, output, right)[0]
    output[1, :3] = 0.042
    output[1, 125:] = 4.25
    passed, message = reference._compare(tokens, output, right)
    assert passed
    assert message == "largest share of wrong elements in a row 0.938 of 1 allowed"
    output[1, 3] = -0.5
    passed, message = reference._compare(tokens, output, right)
    assert not passed
    assert message.startswith("token 1: 5.5% of its elements are wrong, 5% allowed; furthest off is [1, 3]: -0.5")
    assert data[8] == 0


def test_dead_rows_must_be_exact_zeros() -> None:
    data = reference.generate_input(T=7, offset=192, seed=2, **SMALL)
    experts, _ = reference.route(data[0], data[1], data[9])
    dead = (~((experts >= 192) & (experts < 224)).any(dim=-1)).nonzero().flatten().tolist()
    assert dead
    output = reference.ref_kernel(data)
    assert not output[dead].any()
    output[dead[-1], 17] = 1e-30
    passed, message = reference.check_implementation(data, output)
    assert not passed
    assert message == f"token {dead[-1]} has no local expert, so its row must be zero; 1 such rows are not"


def test_wrong_objects_are_named() -> None:
    data = reference.generate_input(T=2, offset=32, seed=1, **SMALL)
    output = reference.ref_kernel(data)
    check = reference.check_implementation
    assert check(data, [output]) == (False, "output is a list, expected a torch.Tensor")
    assert check(data, output.float()) == (False, "output has dtype torch.float32, expected torch.bfloat16")
    assert check(data, output[:1])[1] == "output has shape torch.Size([1, 256]), expected torch.Size([2, 256])"
    output[1, 9] = math.inf
    assert check(data, output) == (False, "token 1: element 9 is inf, expected finite")


def test_work_is_counted_from_the_routing() -> None:
    """88.1 MFLOP a pair and 44.0 MB an active expert at full size: here the counts, there the formula."""
    data = reference.generate_input(T=16, offset=224, seed=6, **SMALL)
    experts, _ = reference.route(data[0], data[1], data[9])
    local = [[e for e in row if 224 <= e < 256] for row in experts.tolist()]
    pairs, live, active = sum(map(len, local)), sum(map(bool, local)), len({e for row in local for e in row})
    expert_bytes = 3 * 256 * 128 + 4 * 6  # values, and a float32 scale for each of six 128 × 128 blocks
    tokens_bytes = live * (256 + 2 * 4) + 16 * 256 * 4 + 256 * 2
    assert reference.work(data, T=16)["flops"] == 6 * 256 * 128 * pairs
    assert reference.work(data, T=16)["bytes"] == active * expert_bytes + tokens_bytes + 16 * 256 * 2
    assert reference.least_work(data)["bytes"] == active * expert_bytes + tokens_bytes + live * 256 * 2
    assert pytest.approx(88.1e6, rel=1e-3) == 6 * 7168 * 2048
    assert pytest.approx(44.0e6, rel=2e-3) == 3 * 7168 * 2048


@pytest.mark.parametrize("spec", CASES, ids=IDS)
def test_torch_baseline_and_template_pass(spec: dict[str, Any]) -> None:
    data = reference.generate_input(**spec)
    before = [v.view(torch.uint8).clone() for v in data[:8]]
    for kernel in (submission("moe_fp8", "moe_fp8_torch.py"), board_module("moe_fp8", "template.py")):
        passed, message = reference.check_implementation(data, kernel.custom_kernel(data))
        assert passed, message
    assert all(torch.equal(v.view(torch.uint8), b) for v, b in zip(data[:8], before, strict=True))


INTERPRETED = """
import sys
sys.path.insert(0, "tests/leaderboards")
from boards_on_disk import board_module, cpu_cases
reference = board_module("moe_fp8", "reference.py")
kernel = board_module("moe_fp8", "template_triton.py")
for spec in cpu_cases("moe_fp8")[:3]:
    data = reference.generate_input(**spec)
    print(spec, *reference.check_implementation(data, kernel.custom_kernel(data)))
"""


def test_triton_template_passes_under_the_interpreter() -> None:
    """In a process of its own: Triton decides on interpretation when it is imported."""
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("} True" in line for line in lines), done.stdout

"""The three NVFP4 boards: what they hand over, what their checks admit and refuse, and their baselines."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from boards_on_disk import PUBLIC_KEYS, ROOT, described_names, submission, task_yml

from harness.boards.board import Board, Spec
from harness.boards.expressions import evaluate
from harness.boards.loader import load_board
from harness.boards.reference import Reference

NAMES = ("nvfp4_gemm", "nvfp4_dual_gemm", "nvfp4_group_gemm")

PUBLISHED_US = {
    "nvfp4_gemm": ["8.994", "2.354", "1.333"],
    "nvfp4_dual_gemm": ["4.708", "8.714", "2.125", "6.535"],
    "nvfp4_group_gemm": ["18.833", "10.667", "2.406", "1.525"],
}
"""Speed of light on a B200 at 1.5 GHz, benchmark by benchmark, as the public boards print it."""
B200_FLOPS_PER_S, B200_BYTES_PER_S = 6.9005e15, 7.68e12
"""Inferred from the published figures; nobody states them."""


@functools.cache
def board(name: str) -> Board:
    return load_board(ROOT / "leaderboards" / name)


@functools.cache
def reference(name: str) -> Reference:
    return Reference.load(board(name))


def cpu_cases(name: str) -> list[Spec]:
    grid = board(name).settings.cpu_grid
    assert grid is not None
    return [*grid.tests, *grid.benchmarks]


every_board = pytest.mark.parametrize("name", NAMES)
every_case = pytest.mark.parametrize(
    ("name", "spec"), [pytest.param(n, s, id=f"{n}-{i}") for n in NAMES for i, s in enumerate(cpu_cases(n))]
)


def tensors(output: Any) -> list[torch.Tensor]:
    """The tensors of an output: one, or one a group."""
    return list(output) if isinstance(output, list) else [output]


def each(function: Callable[[torch.Tensor], torch.Tensor], output: Any) -> Any:
    return [function(x) for x in output] if isinstance(output, list) else function(output)


def passed_through(data: Any) -> Any:
    """The C that the case handed over."""
    return data[-1] if isinstance(data[-1], torch.Tensor) else [c for _, _, c in data[0]]


def in_float64(name: str, data: Any) -> list[torch.Tensor]:
    """The answers in float64, from values decoded one by one by the definition of the format."""
    if name == "nvfp4_group_gemm":
        return [_gemm64(a, b, sfa, sfb) for (a, b, _), (sfa, sfb) in zip(data[0], data[1], strict=True)]
    if name == "nvfp4_gemm":
        a, b, sfa, sfb, *_ = data
        return [_gemm64(a, b, sfa, sfb)]
    a, b1, b2, sfa, sfb1, sfb2, *_ = data
    gate, linear = _gemm64(a, b1, sfa, sfb1), _gemm64(a, b2, sfa, sfb2)
    return [gate / (1 + torch.exp(-gate)) * linear]


def _gemm64(a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor, sfb: torch.Tensor) -> torch.Tensor:
    return torch.einsum("mkl,nkl->mnl", _decoded64(a, sfa), _decoded64(b, sfb))


def _decoded64(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    rows, half_k, batch = packed.shape
    out = torch.empty((rows, 2 * half_k, batch), dtype=torch.float64, device=packed.device)
    for odd in (0, 1):
        code = (packed.view(torch.uint8).long() >> (4 * odd)) & 15
        sign, exponent, mantissa = code >> 3, (code >> 1) & 3, code & 1
        normal = (1 + mantissa / 2.0) * 2.0 ** (exponent - 1)
        out[:, odd::2] = torch.where(exponent == 0, mantissa / 2.0, normal) * (1 - 2 * sign)
    return out * scales.to(packed.device).double().repeat_interleave(16, dim=1)


@every_case
def test_reference_against_float64(name: str, spec: Spec) -> None:
    data = reference(name).generate(spec)
    for output, exact in zip(tensors(reference(name).ref_kernel(data)), in_float64(name, data), strict=True):
        assert output.dtype == torch.float16
        # Half a unit in the last place of fp16, and what fp32 sums add to it.
        assert bool(((output.double() - exact).abs() <= 2**-11 * exact.abs() + 1e-4).all())


@every_case
def test_check_on_every_case(name: str, spec: Spec) -> None:
    ref = reference(name)
    data = ref.generate(spec)
    right = ref.ref_kernel(data)
    assert ref.check(data, right) == (True, "")

    for wrong in (torch.zeros_like, torch.ones_like, lambda x: torch.full_like(x, float("nan"))):
        ok, message = ref.check(data, each(wrong, right))
        assert not ok
        assert re.search(r"\d+ of \d+ elements differ .* the first, at \(\d+, \d+, \d+\), is .*, expected ", message)
    assert not ref.check(data, passed_through(data))[0]
    assert not ref.check(data, each(lambda x: x.float(), right))[0]
    for function in board(name).settings.lint.wrong_answers:
        assert not ref.check(data, ref.lint_function(function)(data, right))[0], function


@every_case
def test_one_nan_is_found(name: str, spec: Spec) -> None:
    ref = reference(name)
    data = ref.generate(spec)
    output = ref.ref_kernel(data)
    tensors(output)[-1][3, 5, 0] = float("nan")
    ok, message = ref.check(data, output)
    assert not ok
    assert "at (3, 5, 0), is nan" in message
    assert re.search(r"\b1 of \d+ elements", message)


@every_case
def test_another_order_of_fp32_sums_passes(name: str, spec: Spec) -> None:
    ref = reference(name)
    data = ref.generate(spec)

    def reversed_k(packed: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes, scale_codes = packed.view(torch.uint8), scales.view(torch.uint8)
        swapped = (codes << 4) | (codes >> 4)
        return swapped.flip(1).view(torch.float4_e2m1fn_x2), scale_codes.flip(1).view(torch.float8_e4m3fn)

    if name == "nvfp4_group_gemm":
        abc, sfasfb = [], []
        for (a, b, c), (sfa, sfb) in zip(data[0], data[1], strict=True):
            (a, sfa), (b, sfb) = reversed_k(a, sfa), reversed_k(b, sfb)
            abc.append((a, b, c))
            sfasfb.append((sfa, sfb))
        reordered = (abc, sfasfb, *data[2:])
    else:
        operands = 2 if name == "nvfp4_gemm" else 3
        pairs = [reversed_k(data[i], data[i + operands]) for i in range(operands)]
        reordered = (*[p for p, _ in pairs], *[s for _, s in pairs], *data[2 * operands :])
    assert ref.check(data, ref.ref_kernel(reordered)) == (True, "")


@every_board
def test_every_group_is_checked(name: str) -> None:
    ref = reference(name)
    for spec in cpu_cases(name):
        data = ref.generate(spec)
        for group in range(len(tensors(ref.ref_kernel(data)))):
            output = ref.ref_kernel(data)
            tensors(output)[group].zero_()
            ok, message = ref.check(data, output)
            assert not ok
            assert name != "nvfp4_group_gemm" or message.startswith(f"group {group}: ")


@pytest.mark.parametrize(("output", "got"), [([], "got 0"), (None, "got NoneType")])
def test_group_output_of_another_form(output: Any, got: str) -> None:
    ref = reference("nvfp4_group_gemm")
    ok, message = ref.check(ref.generate(cpu_cases("nvfp4_group_gemm")[0]), output)
    assert not ok
    assert message == f"a list of 2 tensors was expected, {got}"


@every_board
def test_seeds(name: str) -> None:
    spec = cpu_cases(name)[0]
    once, again, other = (reference(name).generate(spec, seed) for seed in (7, 7, 8))
    for first, same, different in zip(_leaves(once), _leaves(again), _leaves(other), strict=True):
        assert torch.equal(_bytes(first), _bytes(same))
        assert not torch.equal(_bytes(first), _bytes(different))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Something that torch.equal takes: on a CPU it knows neither fp4 nor fp8."""
    return tensor if tensor.dtype == torch.float16 else tensor.view(torch.uint8)


def _leaves(data: Any) -> list[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        return [data]
    return [leaf for part in data for leaf in _leaves(part)] if isinstance(data, list | tuple) else []


@every_board
def test_reference_leaves_its_input_alone(name: str) -> None:
    data = reference(name).generate(cpu_cases(name)[0])
    before = [_bytes(leaf).clone() for leaf in _leaves(data)]
    output = reference(name).ref_kernel(data)
    assert all(torch.equal(_bytes(leaf), old) for leaf, old in zip(_leaves(data), before, strict=True))
    held = {leaf.untyped_storage().data_ptr() for leaf in _leaves(data)}
    assert not held & {x.untyped_storage().data_ptr() for x in tensors(output)}


MEMBER = re.compile(r"\* `(\w+)`: `(\w+) \[([^\]]*)\]`, strides\s+`\(([^`]*)\)`")


@every_board
def test_description_is_what_generate_input_returns(name: str) -> None:
    names = described_names(name)
    members = {n: (dtype, shape, strides) for n, dtype, shape, strides in MEMBER.findall(task_yml(name)["description"])}
    for spec in cpu_cases(name):
        data = reference(name).generate(spec)
        assert isinstance(data, tuple)
        assert len(data) == len(names)
        if name == "nvfp4_group_gemm":
            assert names == ["abc", "sfasfb", "sfasfb_reordered", "problem_sizes"]
            sizes = [dict(zip("mnkl", size, strict=True)) for size in data[3]]
            groups = [
                dict(zip(["a", "b", "c", "sfa", "sfb", "sfa_reordered", "sfb_reordered"], parts, strict=True))
                for parts in zip(*zip(*data[0], strict=True), *zip(*data[1], strict=True), *zip(*data[2], strict=True),
                                 strict=True)
            ]  # fmt: skip
            assert [tuple(s.values()) for s in sizes] == [
                (m, n, k, 1) for m, n, k in zip(spec["m"], spec["n"], spec["k"], strict=True)
            ]
        else:
            sizes, groups = [dict(spec)], [dict(zip(names, data, strict=True))]
        for size, group in zip(sizes, groups, strict=True):
            assert set(group) == set(members)
            for member, tensor in group.items():
                dtype, shape, strides = members[member]
                assert str(tensor.dtype) == f"torch.{dtype}", member
                assert list(tensor.shape) == _evaluated(shape, size), member
                assert list(tensor.stride()) == _evaluated(strides, size), member


def _evaluated(expressions: str, size: dict[str, int]) -> list[float]:
    return [evaluate(text, size) for text in expressions.split(",")]


@every_board
def test_speed_of_light_is_the_published_one(name: str) -> None:
    work = board(name).settings.speed_of_light
    assert work is not None
    figures = []
    for spec in board(name).full_grid.benchmarks:
        seconds = max(
            evaluate(work.flops, spec) / B200_FLOPS_PER_S, evaluate(work.bytes_moved, spec) / B200_BYTES_PER_S
        )
        figures.append(f"{seconds * 1e6:.3f}")
    assert figures == PUBLISHED_US[name]
    assert all(figure in board(name).description for figure in figures)


@every_board
def test_floor_counts_what_must_move(name: str) -> None:
    """The bytes of A, B, their scales without padding, and C, added up over real tensors."""
    work = board(name).settings.floor
    assert work is not None
    spec = cpu_cases(name)[0]
    data = reference(name).generate(spec)
    if name == "nvfp4_group_gemm":
        moved = [x for group in (*data[0], *data[1]) for x in group]
    else:
        operands = 2 if name == "nvfp4_gemm" else 3
        moved = [*data[: 2 * operands], data[-1]]
    assert evaluate(work.bytes_moved, spec) == sum(x.numel() * x.element_size() for x in moved)


@every_board
def test_task_yml_keeps_to_the_public_keys(name: str) -> None:
    assert set(task_yml(name)) <= PUBLIC_KEYS
    assert board(name).settings.worker_files == ("task.py",)


def test_sizes_that_do_not_match_the_group_count() -> None:
    generate_input = reference("nvfp4_group_gemm").module.generate_input
    with pytest.raises(ValueError, match="must each name g = 2 sizes; they name 2, 1 and 2"):
        generate_input(m=(64, 64), n=(128,), k=(128, 128), g=2, seed=0)


def _baselines_and_templates() -> list[Any]:
    found = []
    for name in NAMES:
        files = [*board(name).settings.baselines, str(ROOT / "leaderboards" / name / "template.py")]
        found += [pytest.param(name, file, id=f"{name}-{file.rsplit('/')[-1]}") for file in files]
    return found


@pytest.mark.parametrize(("name", "file"), _baselines_and_templates())
def test_baselines_and_torch_templates_pass_the_cpu_grid(name: str, file: str) -> None:
    kernel = submission(name, file).custom_kernel
    for spec in cpu_cases(name):
        data = reference(name).generate(spec)
        assert reference(name).check(data, kernel(data)) == (True, "")


@pytest.mark.gpu
@every_board
def test_baselines_pass_on_the_gpu(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    kernel = submission(name, board(name).settings.baselines[0]).custom_kernel
    for spec in (*board(name).full_grid.tests, *board(name).full_grid.benchmarks):
        data = reference(name).generate(spec)
        assert reference(name).check(data, kernel(data)) == (True, ""), spec


@pytest.mark.gpu
def test_reference_agrees_with_the_fp4_tensor_cores() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if torch.cuda.get_device_capability()[0] < 10:
        pytest.skip(f"torch._scaled_mm takes FP4 on Blackwell only, and this is a {torch.cuda.get_device_name()}")
    ref = reference("nvfp4_gemm")
    for spec in board("nvfp4_gemm").full_grid.tests:
        data = ref.generate(spec)
        a, b, _, _, sfa, sfb, _ = data
        # The scales as they lie in memory: [row_tiles, scale_tiles, 32, 4, 4].
        in_memory = [s[..., 0].permute(2, 4, 0, 1, 3).flatten() for s in (sfa, sfb)]
        output = torch._scaled_mm(a[..., 0], b[..., 0].T, *in_memory, out_dtype=torch.float16)
        assert ref.check(data, output.unsqueeze(-1)) == (True, ""), spec

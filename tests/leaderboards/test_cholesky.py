"""The cholesky board: inputs, the full check, the spot check, what both refuse, and the submissions that come along."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from boards_on_disk import PUBLIC_KEYS, ROOT, board_module, cpu_cases, described_names, submission, task_yml
from boards_on_disk import wrong_answers as listed_wrong_answers

reference = board_module("cholesky", "reference.py")
lint = board_module("cholesky", "lint.py")
CASES = cpu_cases("cholesky")
STRUCTURES = ["dense", "spectrum", "diagonal", "lowrank", "rowscale", "tridiagonal"]


def spec_id(spec: dict[str, Any]) -> str:
    return "-".join(str(value) for key, value in spec.items() if key != "seed")


def test_task_yml_keeps_to_the_public_keys() -> None:
    assert set(task_yml("cholesky")) <= PUBLIC_KEYS


def test_grids_are_the_public_ones() -> None:
    task = task_yml("cholesky")
    assert len(task["tests"]) == 17
    assert task["tests"][15] == {"batch": 4, "n": 512, "cond": 1, "seed": 32526, "case": "tridiagonal"}
    assert [(c["batch"], c["n"]) for c in task["benchmarks"]] == [
        (4096, 32), (1024, 64), (256, 128), (64, 256), (16, 512), (640, 512), (4, 1024), (60, 1024), (2, 2048),
        (8, 2048), (1, 4096), (2, 4096), (1, 8192), (1, 16384), (1, 32768),
    ]  # fmt: skip
    assert sum(c["seed"] for c in task["benchmarks"]) == 2_532_684
    assert (task["test_timeout"], task["benchmark_timeout"], task["ranked_timeout"]) == (240, 600, 1200)


def test_description_names_what_generate_input_returns() -> None:
    assert described_names("cholesky") == ["A"]
    assert isinstance(reference.generate_input(batch=1, n=4, cond=2, seed=1), torch.Tensor)


def test_three_by_three_by_hand() -> None:
    """[[4, 12, -16], [12, 37, -43], [-16, -43, 98]] = L·Lᵀ with L = [[2, ., .], [6, 1, .], [-8, 5, 3]]."""
    a = torch.tensor([[[4.0, 12, -16], [12, 37, -43], [-16, -43, 98]]])
    factor = torch.tensor([[[2.0, 0, 0], [6, 1, 0], [-8, 5, 3]]])
    assert torch.allclose(reference.ref_kernel(a), factor)
    assert reference.check_implementation(a, factor) == (True, "matrix 0: scaled residual 0 of 1 allowed")
    # ‖A‖₁ = 157 (last column), so 20·3·2⁻²³·157 = 0.001123 is allowed. One element of R is e = (3 + 0.0005)² − 9.
    near = factor.clone()
    near[0, 2, 2] += 0.0001  # e = 0.0006: 0.534 of the limit
    passed, message = reference.check_implementation(a, near)
    assert passed
    assert float(message.split()[4]) == pytest.approx(0.534, abs=0.005)
    near[0, 2, 2] += 0.0002  # e = 0.0018: 1.60 of the limit
    passed, message = reference.check_implementation(a, near)
    assert not passed
    assert float(message.split()[4]) == pytest.approx(1.60, abs=0.01)


@pytest.mark.parametrize("case", STRUCTURES)
def test_inputs_are_symmetric_positive_definite_and_repeatable(case: str) -> None:
    spec = {"batch": 3, "n": 40, "cond": 4, "seed": 11, "case": case}
    a = reference.generate_input(**spec)
    assert a.shape == (3, 40, 40)
    assert a.dtype == torch.float32
    assert a.is_contiguous()
    assert torch.equal(a, a.mT)
    assert float(torch.linalg.eigvalsh(a.double()).min()) > 0
    assert torch.equal(a, reference.generate_input(**spec))
    if case != "diagonal":
        assert not torch.equal(a, reference.generate_input(**{**spec, "seed": 12}))


def test_spectrum_and_diagonal_span_the_decades_asked_for() -> None:
    expected = torch.logspace(0, -5, 32, dtype=torch.float64)
    for case in ("spectrum", "diagonal"):
        a = reference.generate_input(batch=2, n=32, cond=5, seed=3, case=case)
        values = torch.linalg.eigvalsh(a[1].double()).flip(0)
        assert torch.allclose(values, expected, rtol=0, atol=2e-6)


def test_symmetrising_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reference.generate_input(batch=2, n=50, cond=2, seed=5)
    factor = reference.ref_kernel(whole)
    verdict = reference.check_implementation(whole, factor)
    wrong = factor.clone()
    wrong[1, 37, 20] += 0.01
    refusal = reference.check_implementation(whole, wrong)
    monkeypatch.setattr(reference, "BLOCK_COLUMNS", 16)
    monkeypatch.setattr(reference, "BLOCK_ELEMENTS", 2500)
    blocked = reference.generate_input(batch=2, n=50, cond=2, seed=5)
    assert torch.equal(blocked, blocked.mT)
    assert torch.allclose(blocked, whole, rtol=1e-6, atol=1e-6)
    assert reference.check_implementation(whole, factor)[0] == verdict[0] is True
    blocked_refusal = reference.check_implementation(whole, wrong)
    assert not refusal[0]
    assert blocked_refusal[1].split()[:2] == refusal[1].split()[:2] == ["matrix", "1:"]
    # The residual is the same number, however it is cut.
    assert float(blocked_refusal[1].split()[4]) == pytest.approx(float(refusal[1].split()[4]), rel=1e-2)


def test_residual_agrees_with_the_formula_in_float64() -> None:
    a = reference.generate_input(batch=2, n=48, cond=2, seed=9)
    factor = reference.ref_kernel(a)
    factor[1, 30, 4] += 1e-4
    exact = (factor.double() @ factor.double().mT - a.double()).abs().sum(dim=-2).amax(dim=-1)
    allowed = 20 * 48 * 2.0**-23 * a.double().abs().sum(dim=-2).amax(dim=-1)
    _, message = reference.check_implementation(a, factor)
    assert message.startswith("matrix 1: scaled residual ")
    assert float(message.split()[4]) == pytest.approx(float((exact / allowed)[1]), rel=0.01)


@pytest.mark.parametrize("case", STRUCTURES)
def test_varied_input_keeps_structure_and_spectrum_but_no_matrix(case: str) -> None:
    a = reference.generate_input(batch=3, n=24, cond=3, seed=21, case=case)
    varied = reference.vary_input(a, 99)
    assert varied.shape == a.shape
    assert varied.is_contiguous()
    assert torch.equal(varied, varied.mT)
    assert torch.equal(varied, reference.vary_input(a, 99))
    assert not torch.equal(varied, reference.vary_input(a, 100))
    for before, after in zip(a, varied, strict=True):
        assert not torch.equal(before, after)
        if case == "tridiagonal":  # drawn anew: banded, and not the same numbers in another order
            assert int(torch.count_nonzero(torch.triu(after, 2))) == 0
            assert int(torch.count_nonzero(after.diagonal(1))) == 23
        else:  # a permutation: the same elements, the same eigenvalues
            assert torch.equal(before.flatten().sort().values, after.flatten().sort().values)
            assert torch.allclose(torch.linalg.eigvalsh(before), torch.linalg.eigvalsh(after), atol=1e-5)
    if case != "tridiagonal":  # each matrix has a permutation of its own
        pattern = [m.diagonal().argsort() for m in varied]
        assert not torch.equal(pattern[0], pattern[1])


@pytest.mark.parametrize("spec", CASES, ids=spec_id)
def test_reference_passes_both_checks(spec: dict[str, Any]) -> None:
    a = reference.generate_input(**spec)
    factor = reference.ref_kernel(a)
    passed, message = reference.check_implementation(a, factor)
    assert passed, message
    for seed in range(5):
        passed, message = reference.spot_check(a, factor, seed)
        assert passed, message


@pytest.mark.parametrize("spec", CASES, ids=spec_id)
def test_wrong_answers_fail_both_checks(spec: dict[str, Any]) -> None:
    a = reference.generate_input(**spec)
    factor = reference.ref_kernel(a)
    wrong = {name: getattr(lint, name)(a, factor) for name in listed_wrong_answers("cholesky")}
    wrong["zeros"] = torch.zeros_like(factor)
    wrong["ones"] = torch.ones_like(factor)
    wrong["nan"] = torch.full_like(factor, float("nan"))
    wrong["input"] = a.clone()
    if spec.get("case") != "diagonal":  # the transpose of a diagonal factor is right
        wrong["transposed"] = factor.mT.contiguous()
    for name, output in wrong.items():
        for verdict in (reference.check_implementation(a, output), reference.spot_check(a, output, 4)):
            assert not verdict[0], (name, verdict)
            assert "matrix" in verdict[1]


def test_spot_check_finds_one_wrong_matrix_of_4096() -> None:
    a = reference.generate_input(batch=4096, n=32, cond=2, seed=41032)
    factor = reference.ref_kernel(a)
    assert reference.spot_check(a, factor, 1)[0]
    factor[3001] = factor[3000]
    for seed in range(5):
        passed, message = reference.spot_check(a, factor, seed)
        assert not passed
        assert message.startswith("matrix 3001: ")


def test_spot_check_finds_a_wrong_block() -> None:
    a = reference.generate_input(batch=1, n=512, cond=2, seed=7)
    factor = reference.ref_kernel(a)
    factor[0, 300:308, 40:48] = 0
    assert not reference.check_implementation(a, factor)[0]
    assert not any(reference.spot_check(a, factor, seed)[0] for seed in range(10))


def test_spot_check_is_a_lower_bound_and_a_close_one() -> None:
    """The estimate never exceeds ‖R‖₁ and, on random errors of every size, stays within a factor of three of it."""
    a = reference.generate_input(batch=64, n=48, cond=2, seed=17)
    factor = reference.ref_kernel(a)
    noise = torch.randn(factor.shape, generator=torch.Generator().manual_seed(1)).tril(-1)
    for scale in (1e-5, 1e-4, 1e-2):
        wrong = factor + scale * noise
        full = float(reference.check_implementation(a, wrong)[1].split()[4])
        spot = float(reference.spot_check(a, wrong, 3)[1].split()[6])
        assert full / 3 <= spot <= full * 1.001


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda factor: None, "output is a NoneType, expected a torch.Tensor"),
        (lambda factor: factor[:1], "output has shape (1, 8, 8), expected (2, 8, 8)"),
        (lambda factor: factor.double(), "output has dtype torch.float64, expected torch.float32"),
        (lambda factor: factor.to_sparse(), "output has layout torch.sparse_coo, expected torch.strided"),
    ],
)
def test_a_wrong_object_is_named(make: Any, expected: str) -> None:
    a = reference.generate_input(batch=2, n=8, cond=2, seed=1)
    output = make(reference.ref_kernel(a))
    assert reference.check_implementation(a, output) == (False, expected)
    assert reference.spot_check(a, output, 0) == (False, expected)


def test_a_single_infinity_is_located() -> None:
    a = reference.generate_input(batch=2, n=8, cond=2, seed=1)
    factor = reference.ref_kernel(a)
    factor[1, 6, 3] = float("inf")
    expected = (False, "matrix 1: element [6, 3] is inf, expected finite")
    assert reference.check_implementation(a, factor) == expected
    assert reference.spot_check(a, factor, 0) == expected


def test_upper_triangle_is_judged_by_the_rule() -> None:
    """8·n·ε·‖A‖₁ of leakage is allowed, more is not; the diagonal must be positive."""
    a = reference.generate_input(batch=1, n=16, cond=2, seed=2)
    factor = reference.ref_kernel(a)
    allowed = 8 * 16 * 2.0**-23 * float(a.abs().sum(dim=-2).max())
    factor[0, 3, 9] = 0.9 * allowed
    assert reference.check_implementation(a, factor)[0]
    factor[0, 3, 9] = 1.1 * allowed
    passed, message = reference.check_implementation(a, factor)
    assert not passed
    assert message == "matrix 0: scaled norm of the upper triangle 1.1 of 1 allowed"


def test_tf32_is_off_in_the_check_and_restored() -> None:
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    before = [backend.fp32_precision for backend in backends]
    try:
        torch.set_float32_matmul_precision("medium")
        chosen = [backend.fp32_precision for backend in backends]
        assert chosen == ["tf32", "bf16"]
        with reference.full_fp32():
            assert [backend.fp32_precision for backend in backends] == ["ieee", "ieee"]
        assert [backend.fp32_precision for backend in backends] == chosen
    finally:
        torch.set_float32_matmul_precision("highest")
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value


@pytest.mark.parametrize("spec", CASES, ids=spec_id)
@pytest.mark.parametrize("file_name", ["cholesky_torch.py", "cholesky_torch_blocked.py"])
def test_torch_submissions_pass_the_cpu_grid(file_name: str, spec: dict[str, Any]) -> None:
    a = reference.generate_input(**spec)
    before = a.clone()
    passed, message = reference.check_implementation(a, submission("cholesky", file_name).custom_kernel(a))
    assert passed, message
    assert torch.equal(a, before)


INTERPRETED = """
import sys
sys.path.insert(0, "tests/leaderboards")
from boards_on_disk import board_module, cpu_cases, submission
reference = board_module("cholesky", "reference.py")
kernels = [submission("cholesky", "cholesky_triton_small.py"), board_module("cholesky", "template_triton.py")]
odd = [{"batch": 3, "n": 20, "cond": 2, "seed": 4}, {"batch": 2, "n": 1, "cond": 2, "seed": 4}]
for spec in [*cpu_cases("cholesky"), *odd]:
    for kernel in kernels:
        if spec["n"] <= 64:
            a = reference.generate_input(**spec)
            print(kernel.__name__, spec, *reference.check_implementation(a, kernel.custom_kernel(a)))
"""


def test_triton_submissions_pass_under_the_interpreter() -> None:
    """In a process of its own: Triton decides on interpretation when it is imported."""
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 16
    assert all(" True matrix " in line for line in lines), done.stdout

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from harness.boards.board import Precision, Work
from harness.boards.loader import load_board
from harness.boards.reference import BoardCodeError, Reference
from harness.boards.task_files import worker_file_names, write_task_files
from harness.errors import MachineError, RequestError


def test_generate_check_and_seeds(make_board) -> None:
    reference = Reference.load(load_board(make_board()))
    case = {"n": 4, "seed": 1}
    a, b = reference.generate(case)
    assert torch.equal(a, reference.generate(case)[0])
    assert not torch.equal(a, reference.generate(case, seed=2)[0])
    assert torch.equal(reference.generate({"n": 4}, seed=1)[0], a)  # the default argument gives way too
    assert reference.check((a, b), a + b) == (True, "")
    assert reference.check((a, b), a) == (False, "values differ")
    assert reference.has_ref_kernel
    assert torch.equal(reference.ref_kernel((a, b)), a + b)
    assert not reference.has_vary
    assert not reference.has_spot_check


def test_a_seed_for_a_function_without_one_seeds_torch(make_board) -> None:
    code = """
import torch
def generate_input(n):
    return torch.rand(n)
def check_implementation(data, output):
    return ""
"""
    reference = Reference.load(load_board(make_board(reference=code, tests=[{"n": 3}], benchmarks=[{"n": 3}])))
    first, again, other = (reference.generate({"n": 3}, seed=s) for s in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_modules_of_two_boards_do_not_mix(make_board) -> None:
    late = """
import utils
def generate_input(n, seed):
    from task import NAME  # imported late, as some public boards do
    return NAME
def check_implementation(data, output):
    import utils as again
    return again is utils and data == output, ""
"""
    boards = [
        make_board("one", reference=late, files_text={"task.py": "NAME = 'one'"}),
        make_board("two", reference=late, files_text={"task.py": "NAME = 'two'"}),
    ]
    sentinel = object()
    sys.modules["task"] = sentinel  # type: ignore[assignment]
    try:
        references = [Reference.load(load_board(folder)) for folder in boards]
        for _ in range(2):
            assert [r.generate({"n": 1, "seed": 1}) for r in references] == ["one", "two"]
        assert [r.check("x", "x") for r in references] == [(True, ""), (True, "")]
        assert sys.modules["task"] is sentinel
        assert "reference" not in sys.modules
        assert "utils" not in sys.modules
        assert not any(str(r.folder) in sys.path for r in references)
    finally:
        del sys.modules["task"]


@pytest.mark.parametrize(
    ("returned", "verdict"),
    [
        ("(True, '')", (True, "")),
        ("(True, 'residual 0.2')", (True, "residual 0.2")),
        ("(False, 'bad')", (False, "bad")),
        ("(torch.tensor(True), None)", (True, "")),
        ("(False, ['a', 'b'])", (False, "a\nb")),
        ("''", (True, "")),
        ("'mismatch'", (False, "mismatch")),
        ("[]", (True, "")),
        ("['x', 'y']", (False, "x\ny")),
    ],
)
def test_the_public_return_forms(make_board, returned: str, verdict: tuple[bool, str]) -> None:
    code = (
        f"import torch\ndef generate_input(n, seed): ...\ndef check_implementation(data, output): return {returned}\n"
    )
    assert Reference.load(load_board(make_board(reference=code))).check(None, None) == verdict


@pytest.mark.parametrize("returned", ["None", "True", "1", "(True,)", "{}"])
def test_a_check_that_says_nothing_clear_is_no_pass(make_board, returned: str) -> None:
    code = f"def generate_input(n, seed): ...\ndef check_implementation(data, output): return {returned}\n"
    reference = Reference.load(load_board(make_board(reference=code)))
    with pytest.raises(BoardCodeError, match="check_implementation of board 'add' returned"):
        reference.check(None, None)


def test_an_exception_names_board_function_case_and_line(make_board) -> None:
    code = "def generate_input(n, seed):\n    return 1 / 0\ndef check_implementation(data, output): return ''\n"
    reference = Reference.load(load_board(make_board(reference=code)))
    with pytest.raises(BoardCodeError) as caught:
        reference.generate({"n": 4, "seed": 1})
    assert caught.value.where == "board 'add', generate_input, case (n: 4; seed: 1)"
    assert caught.value.what == "the board's code raised ZeroDivisionError: division by zero"
    assert caught.value.hint == "Raised at reference.py:2: return 1 / 0"
    assert "Traceback" in caught.value.traceback


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("import surely_not_installed_module", MachineError, "the module 'surely_not_installed_module' is missing"),
        ("import sys; sys.exit(0)", BoardCodeError, "raised SystemExit"),
        ("def f(:", BoardCodeError, "raised SyntaxError"),
        ("x = 1", RequestError, "defines no generate_input"),
        ("def generate_input(n): ...", RequestError, "defines no check_implementation"),
    ],
)
def test_a_reference_that_does_not_load(make_board, code: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        Reference.load(load_board(make_board(reference=code)))
    assert message in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows a machine without CUDA")
def test_a_demand_for_cuda_is_the_machines_fault(make_board) -> None:
    code = """
import torch
def generate_input(n, seed):
    return torch.rand(n, device="cuda")
def check_implementation(data, output):
    return ""
"""
    reference = Reference.load(load_board(make_board(reference=code)))
    with pytest.raises(MachineError, match="demands a CUDA device") as caught:
        reference.generate({"n": 4, "seed": 1})
    assert caught.value.exit_status == 3
    assert "n: 4" in caught.value.where


def test_work_by_expressions_and_by_function(make_board) -> None:
    code = """
def generate_input(n, seed=0, width=10): ...
def check_implementation(data, output): return ""
def count(data, n, seed): return {"flops": n * data, "bytes": 2}
def bad(data, n, seed): return n
"""
    reference = Reference.load(load_board(make_board(reference=code)))
    case = {"n": 4, "seed": 1}
    assert reference.work(Work("n*width", "n", Precision.FP32), None, case) == (40.0, 4.0)
    assert reference.work(Work(function="count"), 5, case) == (20.0, 2.0)
    with pytest.raises(BoardCodeError, match="bad of board 'add' returned 4"):
        reference.work(Work(function="bad"), 5, case)
    with pytest.raises(RequestError, match=r"flops of case .* are -4"):
        reference.work(Work("-n"), None, case)


def test_vary_and_spot_check(make_board) -> None:
    code = """
def generate_input(n, seed): return n
def check_implementation(data, output): return ""
def vary_input(data, seed): return data + seed
def spot_check(data, output, seed): return "wrong" if output != data + seed else ""
"""
    reference = Reference.load(load_board(make_board(reference=code)))
    assert (reference.has_vary, reference.has_spot_check) == (True, True)
    assert reference.vary(1, 2) == 3
    assert reference.spot_check(1, 3, 2) == (True, "")
    assert reference.spot_check(1, 4, 2) == (False, "wrong")


def test_lint_functions_come_from_the_boards_lint_py(make_board) -> None:
    lint = "from task import input_t\ndef halve(data, output): return output / 2\n"
    reference = Reference.load(load_board(make_board(files_text={"lint.py": lint})))
    assert reference.lint_function("halve")(None, 4) == 2
    with pytest.raises(RequestError, match="no function 'third'"):
        reference.lint_function("third")
    with pytest.raises(RequestError, match="the file is missing"):
        Reference.load(load_board(make_board("bare"))).lint_function("halve")


def test_task_files_lie_under_their_own_names(make_board, tmp_path: Path) -> None:
    board = load_board(make_board())
    out = tmp_path / "out"
    out.mkdir()
    assert worker_file_names(board) == ("task.py", "utils.py")
    written = write_task_files(board, out, "mine", names={"submission.py", "utils.py"})
    assert [path.name for path in written] == ["submission.py", "utils.py"]
    assert (out / "submission.py").read_text() == "mine"
    assert {path.name for path in write_task_files(board, out)} == {"task.py", "utils.py", "reference.py", "eval.py"}

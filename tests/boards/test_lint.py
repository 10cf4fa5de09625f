from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from problem_folders import REFERENCE

from harness.boards import find
from harness.boards.board import GridName
from harness.boards.lint import Code, LintReport, Severity, lint_board
from harness.boards.loader import load_board

CPU_GRID = {"cpu": {"tests": [{"n": 4, "seed": 1}], "benchmarks": [{"n": 6, "seed": 3}]}}


def lint(folder: Path, **options: Any) -> LintReport:
    return lint_board(load_board(folder), **options)


def found(report: LintReport) -> set[tuple[Code, Severity]]:
    return {(finding.code, finding.severity) for finding in report.findings}


def messages(report: LintReport, code: Code) -> list[str]:
    return [finding.message for finding in report.findings if finding.code is code]


def test_a_sound_board_has_no_findings(make_board) -> None:
    harness = {
        "grids": CPU_GRID,
        "speed_of_light": {"flops": "n*n", "bytes": "12*n*n"},
        "floor": {"flops": "0", "bytes": "12*n*n"},
        "lint": {"wrong_answers": ["one_off", "second_ignored"], "lowest_precision": "fp32"},
    }
    answers = """
def one_off(data, output):
    wrong = output.clone()
    wrong[-1, -1] += 1
    return wrong


def second_ignored(data, output):
    return data[0].clone()
"""
    told: list[tuple[int, int]] = []
    report = lint(
        make_board(harness=harness, files_text={"lint.py": answers}),
        tell=lambda text, done, total: told.append((done, total)),
    )
    assert report.findings == ()
    assert report.sound
    assert (report.grid, len(report.cases)) == (GridName.CPU, 2)
    # zeros, ones, NaN, either input passed through, transposed, two of lint.py
    assert [(case.lowest_precision, case.refused) for case in report.cases] == [("fp32", 8), ("fp32", 8)]
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert lint(Path(load_board(find.shipped_leaderboards() / "vectoradd").folder)).sound


def test_full_takes_the_full_grid(make_board) -> None:
    report = lint(make_board(harness={"grids": CPU_GRID}), full=True)
    assert (report.grid, len(report.cases)) == (GridName.FULL, 3)


CHECK = "def check_implementation(data, output):\n    return close(output, ref_kernel(data))\n"
GENERATOR = "    generator = torch.Generator().manual_seed(seed)\n"


def changed(old: str, new: str) -> str:
    assert old in REFERENCE
    return REFERENCE.replace(old, new)


@pytest.mark.parametrize(
    ("reference", "code", "severity", "message"),
    [
        (
            changed(CHECK, "def check_implementation(data, output):\n    return output.shape == data[0].shape, ''\n"),
            Code.WRONG_ANSWER_PASSES,
            Severity.ERROR,
            "a wrong answer passes: zeros",
        ),
        (
            changed(
                CHECK,
                "def check_implementation(data, output):\n"
                "    data[0].copy_(ref_kernel(data))\n    return close(output, data[0])\n",
            ),
            Code.WRONG_ANSWER_PASSES,
            Severity.ERROR,
            "a wrong answer passes: input 0 passed through",
        ),
        (
            changed(
                CHECK,
                "def check_implementation(data, output):\n"
                "    expected = ref_kernel(data)\n    data[0].zero_()\n    return close(output, expected)\n",
            ),
            Code.INPUT_CHANGED,
            Severity.ERROR,
            "check_implementation changes the input 0",
        ),
        (
            changed("return data[0] + data[1]", "return data[0].add_(data[1])"),
            Code.INPUT_CHANGED,
            Severity.WARNING,
            "the reference changes the input 0",
        ),
        (
            changed(CHECK, "def check_implementation(data, output):\n    return 'always wrong'\n"),
            Code.REFERENCE_FAILS,
            Severity.ERROR,
            "the check refuses the board's own answer: always wrong",
        ),
        (
            changed(
                CHECK,
                "def check_implementation(data, output):\n    bad = (output.float() - ref_kernel(data)).abs() > 1e-2\n"
                "    return not bad.any() and not output.isnan().any(), ''\n",
            ),
            Code.WRONG_FORM_PASSES,
            Severity.WARNING,
            "the right values in another dtype pass",
        ),
        (
            changed("return close(output, ref_kernel(data))", "assert close(output, ref_kernel(data))[0]; return ''"),
            Code.CHECK_RAISES,
            Severity.WARNING,
            "the check raises on a wrong answer (zeros)",
        ),
        (
            changed(GENERATOR, "    generator = torch.Generator()\n    generator.seed()\n"),
            Code.NOT_DETERMINISTIC,
            Severity.ERROR,
            "another input 0 from the same seed",
        ),
        (
            changed(GENERATOR, "    generator = torch.Generator().manual_seed(1)\n"),
            Code.SEED_IGNORED,
            Severity.ERROR,
            "the same input from another seed",
        ),
        (
            changed("return torch.randn", "n // 0\n    return torch.randn"),
            Code.BOARD_CODE,
            Severity.ERROR,
            "raised ZeroDivisionError",
        ),
        ("import missing_module_of_nobody\n", Code.MACHINE, Severity.ERROR, "'missing_module_of_nobody' is missing"),
        (changed("def ref_kernel", "def _ref_kernel").replace("close(output, ref_kernel(data))", "''"),
         Code.NO_RIGHT_ANSWER, Severity.ERROR, "no ref_kernel and no baseline"),
        (
            changed("    return torch.randn", "    import threading\n    return threading.Lock(), torch.randn"),
            Code.NOT_PLAIN_DATA,
            Severity.NOTE,
            "which is not plain data",
        ),
    ],
)  # fmt: skip
def test_faults_of_the_reference(make_board, reference: str, code: Code, severity: Severity, message: str) -> None:
    report = lint(make_board(reference=reference, harness={"grids": CPU_GRID}))
    assert (code, severity) in found(report)
    assert any(message in text for text in messages(report, code))
    assert report.sound is not any(s is Severity.ERROR for _, s in found(report))


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"extra": 1, "config": {"main": "eval.py", "x": 1}}, Code.UNKNOWN_KEY, "refuses the key 'extra'"),
        ({"extra": 1, "config": {"main": "eval.py", "x": 1}}, Code.UNKNOWN_KEY, "refuses the key 'config.x'"),
        ({"drop": ("description",)}, Code.DESCRIPTION_MISSING, "there is no description"),
        ({"templates": {"Mojo": "template.py"}}, Code.TEMPLATE_NAME, "refuses a template for 'Mojo'"),
        ({"drop": ("ranking_by",), "benchmarks": [{"n": 1, "seed": 1}, {"n": 2, "seed": 1}]}, Code.RANKING, "has 2"),
        ({"tests": []}, Code.NO_CASES, "the full grid has no tests"),
        ({"benchmarks": []}, Code.NO_CASES, "has no benchmarks"),
        (
            {"description": "`data = (a, b, c)`"},
            Code.DESCRIPTION_TUPLE,
            "data is 3 (a, b, c), generate_input returns 2",
        ),
        ({"description": "data = a"}, Code.DESCRIPTION_TUPLE, "data is 1 (a), generate_input returns 2"),
        ({"description": "data = (a, b)\n`a`: `float16 [n, n]`"}, Code.DESCRIPTION_FORM, "a is float16; it is float32"),
        (
            {"description": "data = (a, b)\nb is [n, 2*n]"},
            Code.DESCRIPTION_FORM,
            "b is [n, 2*n] = [4, 8]; it is [4, 4]",
        ),
        ({"harness": {"grids": CPU_GRID, "in_place": ["2"]}}, Code.IN_PLACE_PATH, "has the path '2'"),
        (
            {"harness": {"grids": CPU_GRID, "baselines": ["x.py"]}},
            Code.BASELINE_MISSING,
            "the baseline 'x.py' is neither in ",
        ),
        ({"harness": {"grids": CPU_GRID, "floor": {"bytes": "k"}}}, Code.WORK, "'k' is no key of the case"),
        ({"harness": {"grids": CPU_GRID, "floor": {"bytes": "0*n"}}}, Code.WORK, "no flops and no bytes"),
        (
            {"harness": {"grids": CPU_GRID, "floor": {"bytes": "9*n"}, "speed_of_light": {"bytes": "8*n"}}},
            Code.FLOOR_ABOVE_SPEED_OF_LIGHT,
            "the floor counts 36 bytes, the speed of light only 32",
        ),
        (
            {"harness": {"grids": CPU_GRID, "lint": {"wrong_answers": ["nothing"]}}},
            Code.BOARD_CODE,
            "the file is missing",
        ),
    ],
)
def test_faults_of_the_files(make_board, change: dict[str, Any], code: Code, message: str) -> None:
    report = lint(make_board(**{"harness": {"grids": CPU_GRID}, **change}))
    assert any(message in text for text in messages(report, code)), report.findings
    assert not report.sound


def test_warnings_of_the_files(make_board) -> None:
    report = lint(make_board(tests=[{"n": 4, "seed": 1, "eps": "1e-5"}], description="Add."))
    assert (Code.NO_CPU_GRID, Severity.WARNING) in found(report)
    assert (Code.NUMBER_AS_TEXT, Severity.WARNING) in found(report)
    assert (Code.DESCRIPTION_TUPLE, Severity.WARNING) in found(report)


def loose(tolerance: float) -> str:
    return changed(
        CHECK,
        "def check_implementation(data, output):\n    wanted = ref_kernel(data)\n"
        f"    near = lambda: torch.allclose(output, wanted, rtol={tolerance}, atol={tolerance})\n"
        "    return output.dtype == wanted.dtype and near(), ''\n",
    )


@pytest.mark.parametrize(("tolerance", "lowest"), [(1e-6, "fp32"), (2e-3, "fp16"), (1.5e-2, "bf16"), (1.5e-1, "fp8")])
def test_the_lowest_precision_that_a_tolerance_lets_through(make_board, tolerance: float, lowest: str) -> None:
    harness = {"grids": {"cpu": {"tests": [{"n": 64, "seed": 1}], "benchmarks": [{"n": 32, "seed": 3}]}}}
    report = lint(make_board(reference=loose(tolerance), harness={**harness, "lint": {"lowest_precision": lowest}}))
    assert {case.lowest_precision for case in report.cases} == {lowest}
    assert report.sound


def test_a_precision_below_the_declared_one_is_an_error(make_board) -> None:
    harness = {"grids": CPU_GRID, "lint": {"lowest_precision": "fp16"}}
    report = lint(make_board(reference=loose(1.5e-2), harness=harness))
    assert "the output rounded to bf16 passes; harness.yml declares fp16 as the lowest" in messages(
        report, Code.PRECISION_TOO_LOW
    )


VARY = """

def vary_input(data, seed):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(x.shape, generator=generator) for x in data)


def spot_check(data, output, seed):
    row = seed % len(output)
    return close(output, ref_kernel(data))
"""


def test_vary_and_spot_check_that_are_consistent(make_board) -> None:
    assert lint(make_board(reference=REFERENCE + VARY, harness={"grids": CPU_GRID})).findings == ()


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("return tuple(torch.randn(x.shape, generator=generator) for x in data)",
         "return torch.randn(data[0].shape, generator=generator), data[1]", Code.VARY_KEEPS, "leaves 1 as it was"),
        ("return tuple(torch.randn(x.shape, generator=generator) for x in data)",
         "return data[1], data[0]", Code.VARY_KEEPS, "a varied input has the same answer"),
        ("torch.randn(x.shape, generator", "torch.randn(x.shape[0], 1, generator", Code.VARY_FORM, "of 0"),
        (".manual_seed(seed)\n    return tuple", ".manual_seed(1)\n    return tuple", Code.SEED_IGNORED, "vary_input"),
        ("return tuple", "data[0].zero_()\n    return tuple", Code.INPUT_CHANGED, "vary_input changes the input 0"),
        ("    row = seed % len(output)\n    return close(output, ref_kernel(data))", "    return ''",
         Code.SPOT_CHECK_PASSES, "spot_check passes a wrong answer that the full check refuses: zeros (3 of 3 seeds)"),
        ("    row = seed % len(output)\n    return close(output, ref_kernel(data))", "    return 'no'",
         Code.SPOT_CHECK_REFUSES, "spot_check refuses the right answer: no"),
    ],
)  # fmt: skip
def test_vary_and_spot_check_that_are_not(make_board, old: str, new: str, code: Code, message: str) -> None:
    assert old in VARY
    report = lint(make_board(reference=REFERENCE + VARY.replace(old, new), harness={"grids": CPU_GRID}))
    assert any(message in text for text in messages(report, code)), report.findings
    assert not report.sound


def test_a_baseline_stands_in_for_a_missing_ref_kernel(make_board, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(find, "_PACKAGE", tmp_path / "harness")
    (tmp_path / "submissions" / "add").mkdir(parents=True)
    kernel = tmp_path / "submissions" / "add" / "add_torch.py"
    kernel.write_text("from task import input_t\n\ndef custom_kernel(data: input_t):\n    return data[0] + data[1]\n")
    reference = changed("def ref_kernel", "def hidden").replace("ref_kernel(data)", "hidden(data)")
    harness = {"grids": CPU_GRID, "baselines": ["add_torch.py"]}
    assert lint(make_board(reference=reference, harness=harness)).findings == ()
    kernel.write_text("def custom_kernel(data):\n    return data[0]\n")
    assert messages(lint(tmp_path / "problems" / "add"), Code.REFERENCE_FAILS)


def test_an_output_of_several_tensors_is_zeroed_one_by_one(make_board) -> None:
    reference = changed("return data[0] + data[1]", "return [data[0] + 1, data[1] + 1]").replace(
        "return close(output, ref_kernel(data))",
        "return close(output[0], ref_kernel(data)[0])  # the second is forgotten",
    )
    report = lint(make_board(reference=reference, harness={"grids": CPU_GRID}))
    assert messages(report, Code.WRONG_ANSWER_PASSES)[:1] == ["a wrong answer passes: zeros in 1"]


def test_an_answer_that_the_transpose_does_not_change_is_not_wrong(make_board) -> None:
    reference = changed("return data[0] + data[1]", "return torch.diag(data[0].diagonal())")
    report = lint(make_board(reference=reference, harness={"grids": CPU_GRID}))
    assert report.findings == ()


def test_cuda_and_multi_gpu_boards_are_read_only(make_board) -> None:
    cases = [{"world_size": 2, "n": 4}]
    report = lint(make_board(multi_gpu=True, tests=cases, benchmarks=cases, harness={"grids": {"cpu": {
        "tests": cases, "benchmarks": cases}}}))  # fmt: skip
    assert found(report) == {(Code.MACHINE, Severity.NOTE)}
    assert report.sound


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows a machine without CUDA")
def test_a_board_that_demands_cuda_says_so(make_board) -> None:
    reference = changed("n, n, generator=generator), ", "n, n, device='cuda'), ")
    report = lint(make_board(reference=reference, harness={"grids": CPU_GRID}))
    assert (Code.MACHINE, Severity.ERROR) in found(report)
    assert "demands a CUDA device" in messages(report, Code.MACHINE)[0]

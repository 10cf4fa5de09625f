"""Outputs of a board's own classes, and what an output must look like where the board's check does not look."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial import CUDA, Outcome, Trial, tiny_board

from harness.boards.find import find_board
from harness.boards.reference import Reference
from harness.evaluation.expected import Expected
from harness.evaluation.record import Mode

pytestmark = pytest.mark.skipif(CUDA, reason="written for the CPU")
BOARDS = Path(__file__).parent / "boards"


def run(trial: Trial, board: str, body: str, mode: Mode = Mode.LEADERBOARD) -> Outcome:
    source = f"#!POPCORN leaderboard {board}\nimport torch\n{body}"
    return trial(source, board=find_board(str(BOARDS / board)), mode=mode)


MOMENTS = """
from task import Moments, Spread
def custom_kernel(data):
    return Moments(data + data, Spread(data ** 2, data.abs().max().item()))
"""


def test_named_tuples_and_dataclasses_arrive_as_the_boards_own(trial: Trial) -> None:
    """A number among the values differs from call to call."""
    outcome = run(trial, "moments", MOMENTS)
    assert outcome.status == "passed", outcome.told()


def test_classes_of_the_submissions_own_become_the_boards(trial: Trial) -> None:
    own = """
from collections import namedtuple
from dataclasses import make_dataclass
Mine, Own = namedtuple("Mine", "first second"), make_dataclass("Own", ["squares", "largest"])
def custom_kernel(data):
    return Mine(data + data, Own(data ** 2, data.abs().max().item()))
"""
    outcome = run(trial, "moments", own)
    assert outcome.status == "passed", outcome.told()


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("Moments(data + data, Spread(data ** 2, 1.0))", ""),
        ("Spread(data + data, 1.0)", "is a dataclass of squares, largest, expected Moments(doubled, spread)"),
        ("Moments(data + data, Own(data ** 2))", "is a dataclass of squares, expected Spread(squares, largest)"),
        ("(data + data, Spread(data ** 2, 1.0))", "Moments of a tensor and a Spread was expected, got tuple"),
        ("[Mine(data * 2)]", "is a named tuple of 1, expected a tensor"),
    ],
)
def test_other_classes_do_not(returned: str, says: str, trial: Trial) -> None:
    body = f"""
from collections import namedtuple
from dataclasses import make_dataclass
from task import Moments, Spread
Mine, Own = namedtuple("Mine", "first"), make_dataclass("Own", ["squares"])
def custom_kernel(data):
    return {returned}
"""
    outcome = run(trial, "moments", body, Mode.TEST)
    assert outcome.status == "failed", outcome.told()
    assert says in outcome.message


def test_a_board_without_a_reference_says_what_is_missing(trial: Trial) -> None:
    body = """
from collections import namedtuple
def custom_kernel(data):
    return namedtuple("Mine", "sum")(data.operands.left * data.scale + data.operands.right)
"""
    outcome = run(trial, "scaled_sum", body, Mode.TEST)
    assert (outcome.status, outcome.code) == ("failed", "contract"), outcome.told()
    assert "the board's ref_kernel has none there" in outcome.message


LAZY = {
    "a named tuple is due": "class Lazy(Moments):\n    def __iter__(self):\n        return super().__iter__()\n",
    "dataclass is due": (
        "class Lazy(Spread):\n    @property\n    def squares(self):\n        return None\n"
        "    def __init__(self, a, b):\n        object.__setattr__(self, 'largest', 1.0)\n"
    ),
}


@pytest.mark.parametrize("source", LAZY.values(), ids=["named tuple", "dataclass"])
def test_classes_that_compute_when_they_are_read_are_refused(source: str, trial: Trial) -> None:
    body = f"from task import Moments, Spread\n{source}def custom_kernel(data):\n    return Lazy(data, data)\n"
    outcome = run(trial, "moments", body, Mode.TEST)
    assert (outcome.status, outcome.code) == ("failed", "contract"), outcome.told()
    assert "Lazy; a plain" in outcome.message


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("(2 * data).half(), data / 2", "item 0 has dtype float16, expected float32"),
        ("2 * data[:1], data / 2", "item 0 has shape [1], expected [100]"),
        ("2 * data, (data / 2)[None]", "item 1 has shape [1, 100], expected [100]"),
        ("(2 * data,)", "it is a tuple of 1, expected a tuple of 2"),
        ("(2 * data, data / 2, data)", "it is a tuple of 3, expected a tuple of 2"),
    ],
)
def test_forms_that_a_check_does_not_look_at(returned: str, says: str, trial: Trial) -> None:
    outcome = run(
        trial, "loose", f"def custom_kernel(data):\n    data = data.clone()\n    return {returned}\n", Mode.TEST
    )
    assert (outcome.status, outcome.code) == ("failed", "contract"), outcome.told()
    assert says in outcome.message


@pytest.mark.parametrize("returned", ["[2 * data, data / 2]", "((2 * data).double(), data / 2)"])
def test_a_list_for_a_tuple_and_a_wider_dtype_are_left_to_the_check(returned: str, trial: Trial) -> None:
    outcome = run(trial, "loose", f"def custom_kernel(data):\n    return {returned}\n")
    assert outcome.status == "passed", outcome.told()


def test_what_a_check_admits_on_purpose_is_admitted(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at dtypes, and half precision is among those that it takes."""
    check = Reference.check

    def two_dtypes(self: Reference, data: object, output: list, spec: object = None) -> tuple[bool, str]:
        if {str(item.dtype) for item in output} - {"torch.float32", "torch.float16"}:
            return False, "float32 or float16 was expected"
        return check(self, data, output)

    body = "def custom_kernel(data):\n    return (2 * data).half(), (data / 2).half()\n"
    assert run(trial, "loose", body).code == "contract"
    monkeypatch.setattr(Reference, "check", two_dtypes)
    outcome = run(trial, "loose", body)
    assert outcome.status == "passed", outcome.told()


@pytest.mark.parametrize("board", ["cholesky", "vectoradd", "softmax", "nvfp4_gemm", "nvfp4_group_gemm"])
def test_the_checks_of_shipped_boards_look_at_all_of_it(board: str) -> None:
    """So nothing is asked of their references but once, at the first test."""
    made = tiny_board(board)
    reference = Reference.load(made)
    data = reference.generate(made.settings.cpu_grid.tests[0])
    expected = Expected(reference)
    expected.check_form(data, reference.ref_kernel(data))
    assert expected._uncompared == frozenset()

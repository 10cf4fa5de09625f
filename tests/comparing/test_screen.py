"""What the screen says of the processes that a verdict is from."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from harness.boards.board import GridName, RankBy
from harness.cli.compare_document import compare_document
from harness.cli.comparing import format_judged, render_comparison
from harness.cli.operands import Side
from harness.comparing.record import CaseComparison, PairedComparison, Readings
from harness.evaluation.record import Device, IsolationLevel
from harness.measure.comparison import Ratio
from harness.measure.processes import pair
from harness.measure.statistics import Interval

A, B = Side("", "a.py", None), Side("", "b.py", None)
STILL: tuple[Readings, ...] = ((60_000, 60_050, 60_000, 60_050),) * 64
APART: tuple[Readings, ...] = tuple(
    (60_000, b, b, 60_050) for b in (61_200 if pair(unit, 4)[1] % 2 else 60_000 for unit in range(64))
)
"""B is 1 % slower, two of its processes by 2 %, two by nothing."""
CASES = (
    CaseComparison(0, {"n": 1}, STILL, APART, (0,), processes=4),
    CaseComparison(1, {"n": 2}, STILL, STILL, (0,), processes=4),
)
RESULT = PairedComparison(
    "board", GridName.FULL, Device("cuda", "one"), IsolationLevel.NONE, RankBy.GEOM, 1, "", CASES[:1], processes=4
)


def screen(result: PairedComparison) -> str:
    file = io.StringIO()
    render_comparison(Console(file=file, width=80), result, A, B)
    assert all(len(line) <= 80 for line in file.getvalue().splitlines())
    return " ".join(file.getvalue().split())


def test_how_many_processes_a_verdict_is_from() -> None:
    assert "in 4 processes of each version." in screen(RESULT)
    one = replace(CASES[1], processes=1)
    assert "in 4 processes of each version (case 1 in 1: no memory or time for more)." in screen(
        replace(RESULT, cases=(CASES[0], one))
    )
    assert "in one process of each version." in screen(replace(RESULT, cases=(one,), processes=1))
    document = compare_document(replace(RESULT, cases=(CASES[0], one)), A, B)
    assert (document["processes"], [case["processes"] for case in document["cases"]]) == (4, [4, 1])


def test_an_interval_that_is_not_symmetric_shows_both_ends() -> None:
    assert format_judged(Ratio(0.32, Interval(0.0455, 1.298))) == "0.32 −86 +306 %"
    assert format_judged(Ratio(1.0103, Interval(1.0079, 1.0127))) == "1.0103 ± 0.24 %"


@pytest.mark.parametrize("width", range(60, 121))
def test_a_number_and_its_unit_stay_together(width: int) -> None:
    file = io.StringIO()
    render_comparison(Console(file=file, width=width), RESULT, A, B)
    shown = file.getvalue().splitlines()
    assert not any(line.endswith("±") or line.startswith("%") for line in shown)


@pytest.mark.parametrize(
    ("processes", "advice"),
    [
        (4, "Unsure: the interval is too wide to say. Processes of one version differ that much; more of them"),
        (1, "More time (--budget) or a quieter machine narrows it."),
    ],
)
def test_what_would_narrow_an_interval(processes: int, advice: str) -> None:
    noisy: tuple[Readings, ...] = ((60_000, 58_000, 58_000, 60_000), (60_000, 62_000, 62_000, 60_000)) * 8
    case = CASES[0] if processes == 4 else replace(CASES[0], null=noisy, paired=noisy, processes=1)
    assert advice in screen(replace(RESULT, cases=(case,), processes=processes))


def test_a_budget_for_the_fewest_units_is_told() -> None:
    noisy: tuple[Readings, ...] = ((60_000, 58_000, 58_000, 60_000), (60_000, 62_000, 62_000, 60_000)) * 4
    case = replace(CASES[0], null=noisy, paired=noisy, processes=1)
    told = screen(replace(RESULT, cases=(case,), processes=1))
    assert "Some cases had 8 units, the fewest there can be; more time (--budget) gives them more." in told

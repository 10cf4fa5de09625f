from __future__ import annotations

from dataclasses import replace

import pytest

from harness.boards.board import GridName, RankBy
from harness.comparing.record import CaseComparison, Fault, Name, PairedComparison
from harness.evaluation.record import Device, IsolationLevel, Reason, ReasonCode, Status
from harness.measure.comparison import Unit, Verdict, Why
from harness.measure.statistics import Interval

NULL = ((1000, 1002, 1000, 1002), (1002, 1000, 1002, 1000)) * 8
PAIRED = ((1000, 1900, 1904, 1002),) * 16
CASE = CaseComparison(0, {"n": 1}, NULL, PAIRED, (100,) * 32)
RESULT = PairedComparison("board", GridName.CPU, Device("cpu", "one"), IsolationLevel.NONE, RankBy.GEOM, 1, "", (CASE,))
FAULT = Fault(Name.B, Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, "no"))


def test_units_are_readings_less_the_median_noop() -> None:
    uneven = replace(CASE, overhead_ns=(90, 100, 500))
    assert uneven.units[0] == Unit(a1_ns=900, b1_ns=1800, b2_ns=1804, a2_ns=902)
    assert replace(CASE, overhead_ns=()).units[0].a1_ns == 1000


def test_figures_are_of_the_paired_run() -> None:
    a, b = CASE.figure(Name.A), CASE.figure(Name.B)
    assert a is not None
    assert b is not None
    assert (a.value_ns, a.interval_ns) == (901.0, Interval(900, 902))
    assert b.value_ns == 1802.0
    assert replace(CASE, overhead_ns=(5000,)).figure(Name.A) is None


def test_verdict_and_score() -> None:
    assert CASE.judgement is not None
    assert CASE.judgement.verdict is Verdict.SLOWER
    assert CASE.judgement.ratio is not None
    assert CASE.judgement.ratio.value == pytest.approx(2.0, rel=1e-3)
    assert RESULT.verdict is Verdict.SLOWER
    assert not RESULT.failed
    assert not RESULT.refused


def test_a_mean_weighs_cases_by_their_time() -> None:
    long = CaseComparison(
        1, {"n": 2}, tuple(tuple(9 * x for x in unit) for unit in NULL), ((9000, 9000, 9018, 9018),) * 16, ()
    )  # type: ignore[arg-type]
    both = replace(RESULT, cases=(replace(CASE, overhead_ns=()), long))
    assert both.overall is not None
    assert both.overall.ratio is not None
    assert both.overall.ratio.value == pytest.approx(1.9**0.5, rel=1e-2)
    by_mean = replace(both, ranking_by=RankBy.MEAN)
    assert by_mean.overall is not None
    assert by_mean.overall.ratio is not None
    assert by_mean.overall.ratio.value == pytest.approx(1.9**0.1, rel=1e-2)


def test_a_failed_or_refused_case_leaves_no_score() -> None:
    failed = replace(RESULT, cases=(CASE, replace(CASE, fault=FAULT)))
    assert failed.failed
    assert failed.overall is None
    assert failed.verdict is None
    off = replace(CASE, null=((1000, 1020, 1020, 1000),) * 16)
    refused = replace(RESULT, cases=(CASE, off))
    assert refused.refused
    assert refused.verdict is None


def test_a_score_alone_can_be_refused() -> None:
    """Fifteen null runs that are each 0.6 % off within their noise are surely off together."""
    near = tuple((1000, b, b, 1000) for b in (999, 1006, 1006, 1006, 1006, 1006, 1006, 1013))
    case = CaseComparison(0, {"n": 1}, near, near, (0,))
    assert case.judgement is not None
    assert case.judgement.verdict is Verdict.UNSURE
    result = replace(RESULT, cases=(case,) * 30)
    assert result.overall is not None
    assert result.overall.why is Why.NULL_OFF_CENTRE
    assert result.verdict is None
    assert result.refused

"""Medians, intervals and scores against numbers worked out by hand, and properties that must always hold."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import RankBy
from harness.evaluation.record import Samples
from harness.measure.statistics import (
    Figure,
    Interval,
    case_figure,
    case_times_ns,
    cost_of_no_op,
    geometric_mean,
    level,
    level_interval,
    median,
    median_interval,
    medians_of_workers,
    ratio,
    score,
    score_ns,
    students_t,
)

TIMES = st.floats(min_value=1e-3, max_value=1e15)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([3, 1], 2.0),
        ([9, 1, 4], 4.0),
        ([10, 2, 8, 4], 6.0),
        ([7, 7, 1, 100, 3], 7.0),
    ],
)
def test_median(values: list[float], expected: float) -> None:
    assert median(values) == expected


def test_median_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        median([])


# Of n sorted samples, the k-th smallest and k-th largest; k from the binomial table, tails of at most 2.5 %.
@pytest.mark.parametrize(("count", "k"), [(6, 1), (7, 1), (15, 4), (31, 10), (63, 24), (127, 52)])
def test_median_interval_takes_the_tabled_order_statistics(count: int, k: int) -> None:
    values = list(range(1, count + 1))
    random.Random(count).shuffle(values)
    assert median_interval(values) == Interval(k, count + 1 - k)


@pytest.mark.parametrize("count", range(6))
def test_no_interval_below_six_samples(count: int) -> None:
    assert median_interval(list(range(count))) is None


def test_median_interval_of_many_samples() -> None:
    # Normal approximation: 2500 ± 1.96 · sqrt(5000)/2 = 2500 ± 69.3.
    interval = median_interval(list(range(5000)))
    assert interval is not None
    assert interval.low == pytest.approx(2500 - 69.3, abs=2)
    assert interval.high == pytest.approx(2500 + 69.3, abs=2)


def test_median_interval_covers_what_it_promises() -> None:
    """2,000 draws of 15 from a skewed distribution whose median is ln 2; the exact coverage at 15 is 96.5 %."""
    generator = random.Random(7)
    covered = 0
    for _ in range(2000):
        interval = median_interval([generator.expovariate(1.0) for _ in range(15)])
        assert interval is not None
        covered += interval.low <= math.log(2) <= interval.high
    assert 0.95 <= covered / 2000 <= 0.98


@given(st.lists(TIMES, min_size=6, max_size=200))
def test_median_lies_in_its_interval(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval is not None
    assert min(values) <= interval.low <= median(values) <= interval.high <= max(values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4.0], 4.0),
        ([2.0, 8.0], 4.0),
        ([1.0, 10.0, 100.0], 10.0),
        ([3.0, 3.0, 3.0], 3.0),
        ([1e-3, 1e3], 1.0),
    ],
)
def test_geometric_mean(values: list[float], expected: float) -> None:
    assert geometric_mean(values) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("rank_by", RankBy)
def test_scores_refuse_what_is_no_time(bad: float, rank_by: RankBy) -> None:
    with pytest.raises(ValueError, match="not a positive finite time"):
        score_ns(rank_by, [bad])
    with pytest.raises(ValueError, match="not a positive finite time"):
        score_ns(rank_by, [1.0, bad])


def test_scores_refuse_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        geometric_mean([])


@given(st.lists(TIMES, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_geometric_mean_is_bounded_and_has_no_order(values: list[float], shuffler: random.Random) -> None:
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    assert geometric_mean(shuffled) == pytest.approx(mean, rel=1e-12)


def test_geometric_mean_does_not_overflow() -> None:
    assert geometric_mean([1e300, 1e300, 1e-300]) == pytest.approx(1e100, rel=1e-9)


def test_score_by_each_rule() -> None:
    assert score_ns(RankBy.GEOM, [2.0, 8.0]) == pytest.approx(4.0)
    assert score_ns(RankBy.MEAN, [2.0, 8.0]) == 5.0
    assert score_ns(RankBy.LAST, [8.0]) == 8.0
    with pytest.raises(ValueError, match="takes one benchmark, not 2"):
        score_ns(RankBy.LAST, [2.0, 8.0])


def test_times_are_calls_less_the_median_no_op() -> None:
    assert case_times_ns(Samples((110, 120, 100), (9, 10, 30))) == [100.0, 110.0, 90.0]
    assert case_times_ns(Samples((110, 120), ())) == [110.0, 120.0]


def test_a_time_may_be_negative_but_a_figure_may_not() -> None:
    samples = Samples((9, 100, 110), (10, 10, 10))
    assert case_times_ns(samples) == [-1.0, 90.0, 100.0]
    assert case_figure(samples) == Figure(90.0, None)
    assert case_figure(Samples((9, 10, 11), (10, 10, 10))) is None
    assert case_figure(Samples((), ())) is None
    assert case_figure(None) is None


def test_case_interval_holds_the_uncertainty_of_the_no_op() -> None:
    # Times 103 − 100 … : median 1003 − 100 = 903, [900, 906] by the extremes of 7; no-op [96, 104], median 100.
    samples = Samples((1000, 1001, 1002, 1003, 1004, 1005, 1006), (96, 97, 99, 100, 101, 103, 104))
    figure = case_figure(samples)
    assert figure is not None
    assert figure.value_ns == 903.0
    assert figure.interval_ns is not None
    assert figure.interval_ns.low == pytest.approx(903 - 5.0)  # sqrt(3² + 4²)
    assert figure.interval_ns.high == pytest.approx(903 + 5.0)


def test_level_of_several_processes_is_the_mean_of_their_medians() -> None:
    # Processes by turns: 10, 14, 11 and 20, 22, 21 and 30, 31, 29.
    values = [10, 20, 30, 14, 22, 31, 11, 21, 29]
    assert medians_of_workers(values, 3) == [11.0, 21.0, 30.0]
    assert level(values, 3) == pytest.approx(62 / 3)
    assert level(values, 1) == 21.0  # the median of all
    assert level([5.0], 4) == 5.0  # some had no call


def test_interval_of_several_processes_is_students_over_their_medians() -> None:
    # Medians 11, 21, 30: mean 20.667, standard deviation 9.504, t at 2 degrees of freedom 4.303.
    interval = level_interval([10, 20, 30, 14, 22, 31, 11, 21, 29], 3)
    assert interval is not None
    assert interval.half_width == pytest.approx(4.303 * 9.5044 / math.sqrt(3), rel=1e-4)
    assert (interval.low + interval.high) / 2 == pytest.approx(62 / 3)
    assert level_interval([10, 20, 30], 3) is None
    assert level_interval(list(range(1000, 1007)), 1) == Interval(1000.0, 1006.0)


def test_case_of_several_processes_less_their_twins() -> None:
    # Two processes, two twins: medians 1002 and 1012, twins 100 and 104; level 1007 less 102.
    walls = (1000, 1010, 1002, 1012, 1004, 1014)
    figure = case_figure(Samples(walls, (99, 103, 100, 104, 101, 105), (), 2))
    assert figure is not None
    assert figure.value_ns == 905.0
    assert figure.interval_ns is not None
    # Student's t with one degree of freedom: 12.706 times half the difference of two; the no-ops' are 99 to 105.
    assert figure.interval_ns.half_width == pytest.approx(math.hypot(12.706 * 5, 3))


def test_disturbed_calls_of_a_few_do_not_move_the_level_of_several() -> None:
    # Fifteen calls of 20 in five processes: one of 400 is no process's median. Seven calls are too few for five.
    calls = [20.0] * 15
    assert level([*calls[:4], 400.0, *calls[5:]], 5) == 20.0
    assert level([*calls[:4], 400.0, *calls[5:7]], 5) == 20.0
    assert level_interval([*calls[:4], 400.0, *calls[5:]], 5) == Interval(20.0, 20.0)
    one_slow_no_op = Samples((20_000,) * 15, (*[6_000] * 14, 30_000), (), 5)
    figure = case_figure(one_slow_no_op)
    assert figure is not None
    assert figure.value_ns == 14_000


def test_students_t_between_its_entries_is_the_larger() -> None:
    assert students_t(1) == 12.706
    assert students_t(11) == 2.228
    assert students_t(1000) == 2.000


def test_no_ops_that_waited_for_a_processor_give_no_credit() -> None:
    # As measured on a busy machine, ms: a kernel that sleeps for 15 and a twin that mostly waited. Their medians'
    # difference is 12.4; what a call of nothing costs is at most one and a half times the quickest.
    walls = tuple(round(ms * 1e6) for ms in (16.46, 15.89, 16.44, 15.99, 16.29, 15.85, 16.15))
    no_ops = tuple(round(ms * 1e6) for ms in (3.66, 3.64, 3.96, 3.7, 3.64, 0.09, 0.52))
    assert cost_of_no_op(no_ops) == 135_000.0
    figure = case_figure(Samples(walls, no_ops))
    assert figure is not None
    assert figure.value_ns == 16.15e6 - 135_000
    assert figure.interval_ns is not None
    assert figure.interval_ns.low < 15e6 < figure.value_ns < figure.interval_ns.high


def test_an_undisturbed_no_op_costs_its_median() -> None:
    assert cost_of_no_op([8200, 7050, 8300, 9300, 8100]) == 8200.0
    assert cost_of_no_op([]) == 0.0


def test_no_case_interval_when_the_no_op_has_none() -> None:
    figure = case_figure(Samples(tuple(range(1000, 1007)), (10, 10)))
    assert figure == Figure(993.0, None)


def test_geomean_interval_adds_logarithms_in_quadrature() -> None:
    # ± 3 % and ± 4 % in log space give ± 5 % / 2.
    cases = [
        Figure(100.0, Interval(100 * math.exp(-0.03), 100 * math.exp(0.03))),
        Figure(400.0, Interval(400 * math.exp(-0.04), 400 * math.exp(0.04))),
    ]
    result = score(RankBy.GEOM, cases)
    assert result is not None
    assert result.value_ns == pytest.approx(200.0)
    assert result.interval_ns is not None
    assert result.interval_ns.low == pytest.approx(200 * math.exp(-0.025))
    assert result.interval_ns.high == pytest.approx(200 * math.exp(0.025))


def test_mean_interval_adds_values_in_quadrature() -> None:
    cases = [Figure(100.0, Interval(97.0, 103.0)), Figure(300.0, Interval(296.0, 304.0))]
    assert score(RankBy.MEAN, cases) == Figure(200.0, Interval(197.5, 202.5))


def test_score_of_one_case_is_that_case() -> None:
    case = Figure(100.0, Interval(90.0, 130.0))
    assert score(RankBy.LAST, [case]) == case
    of_geom = score(RankBy.GEOM, [case])
    assert of_geom is not None
    assert of_geom.interval_ns is not None
    assert of_geom.interval_ns.low == pytest.approx(90.0)
    assert of_geom.interval_ns.high == pytest.approx(130.0)


def test_score_is_not_invented() -> None:
    good = Figure(100.0, Interval(90.0, 110.0))
    assert score(RankBy.GEOM, []) is None
    assert score(RankBy.GEOM, [good, None]) is None
    assert score(RankBy.GEOM, [good, Figure(100.0, None)]) == Figure(100.0, None)
    assert score(RankBy.GEOM, [good, Figure(100.0, Interval(-5.0, 110.0))]) == Figure(100.0, None)


@given(st.lists(st.tuples(TIMES, st.floats(0.0, 0.5), st.floats(0.0, 0.5)), min_size=1, max_size=20))
def test_score_lies_in_its_interval(rows: list[tuple[float, float, float]]) -> None:
    cases = [Figure(value, Interval(value * (1 - low), value * (1 + high))) for value, low, high in rows]
    for rank_by in (RankBy.GEOM, RankBy.MEAN):
        result = score(rank_by, cases)
        assert result is not None
        assert result.interval_ns is not None
        assert result.interval_ns.low <= result.value_ns * (1 + 1e-12)
        assert result.interval_ns.high >= result.value_ns * (1 - 1e-12)


def test_ratio() -> None:
    old, new = Figure(200.0, Interval(190.0, 210.0)), Figure(100.0, Interval(95.0, 105.0))
    assert ratio(new, old) == (0.5, Interval(95 / 210, 105 / 190))
    assert ratio(Figure(100.0, None), old) == (0.5, None)


def test_no_interval_reaches_below_zero() -> None:
    """Times of 104.5 ms, no-op calls of 1, 60 and 160 ms, of which 1.5 are taken off: 158.5 below, 0.5 above."""
    overhead = (1_000_000,) * 4 + (60_000_000,) * 7 + (160_000_000,) * 4
    figure = case_figure(Samples((106_000_000,) * 15, overhead))
    assert figure == Figure(104.5e6, Interval(0.0, 105e6))
    assert not figure.is_resolved
    sharp = Figure(4e6, Interval(3e6, 5e6))
    below, above = math.hypot(104.5e6, 1e6) / 2, math.hypot(0.5e6, 1e6) / 2
    assert score(RankBy.MEAN, [figure, sharp]) == Figure(54.25e6, Interval(54.25e6 - below, 54.25e6 + above))
    geomean = score(RankBy.GEOM, [figure, sharp])
    assert geomean is not None
    assert geomean.value_ns == pytest.approx(math.sqrt(104.5e6 * 4e6), rel=1e-12)
    assert geomean.interval_ns is None
    assert score(RankBy.LAST, [figure]) == figure


def test_no_ratio_reaches_below_zero() -> None:
    sharp = Figure(10.0, Interval(8.0, 20.0))
    assert ratio(Figure(40.0, Interval(-5.0, 80.0)), sharp) == (4.0, Interval(0.0, 10.0))
    assert ratio(sharp, Figure(40.0, Interval(0.0, 80.0))) == (0.25, None)


@pytest.mark.parametrize(
    ("interval", "resolved"),
    [(None, False), (Interval(-1.0, 9.0), False), (Interval(0.0, 9.0), False), (Interval(0.5, 9.0), True)],
)
def test_a_time_is_resolved_when_its_interval_leaves_zero_out(interval: Interval | None, resolved: bool) -> None:
    assert Figure(5.0, interval).is_resolved is resolved


@given(
    st.lists(st.integers(0, 10**9), min_size=7, max_size=31), st.lists(st.integers(0, 10**9), min_size=7, max_size=31)
)
def test_intervals_hold_their_value_and_no_negative_time(walls: list[int], overhead: list[int]) -> None:
    figure = case_figure(Samples(tuple(walls), tuple(overhead)))
    if figure is not None and figure.interval_ns is not None:
        assert 0 <= figure.interval_ns.low <= figure.value_ns <= figure.interval_ns.high

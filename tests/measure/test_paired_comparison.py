from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.measure.comparison import (
    LEAST_THRESHOLD,
    UNITS,
    Judgement,
    Ratio,
    Unit,
    Verdict,
    Why,
    enough,
    judge,
    judge_all,
    judge_ratio,
    ratio_of,
    ratio_of_logs,
    threshold_of,
)
from harness.measure.signed_rank import signed_rank_interval
from harness.measure.statistics import Interval

# Hollander, Wolfe and Chicken, table 3.1 (depression factors, second less first visit); their examples 3.3 and 3.4.
DEPRESSION = [-0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010]


def test_the_textbook_example() -> None:
    low, centre, high = signed_rank_interval(DEPRESSION, confidence=0.96)
    assert (round(low, 3), round(centre, 2), round(high, 3)) == (-0.786, -0.46, -0.010)


def test_eight_values_are_the_fewest_for_99_percent_and_give_the_whole_range() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0]
    low, _, high = signed_rank_interval(values)
    assert (low, high) == (1.0, 9.0)
    with pytest.raises(ValueError, match="7 values support no interval of 99%"):
        signed_rank_interval(values[:7])


@given(st.lists(st.floats(-1, 1), min_size=65, max_size=90))
@settings(max_examples=30)
def test_many_values_give_the_order_statistics_of_all_averages(values: list[float]) -> None:
    """For more than 64 values the averages are never made; here they are."""
    averages = sorted((x + y) / 2 for i, x in enumerate(sorted(values)) for y in sorted(values)[i:])
    low, centre, high = signed_rank_interval(values)
    count = len(averages)
    middle = (averages[(count - 1) // 2] + averages[count // 2]) / 2
    assert centre == pytest.approx(middle, abs=1e-12)
    skipped = min(range(count), key=lambda i: abs(averages[i] - low))
    assert averages[skipped] == pytest.approx(low, abs=1e-12)
    assert averages[count - 1 - skipped] == pytest.approx(high, abs=1e-9) or averages.count(averages[skipped]) > 1


@given(st.lists(st.floats(-0.5, 0.5), min_size=8, max_size=200), st.floats(-0.5, 0.5))
@settings(max_examples=50)
def test_shifted_and_mirrored_values(values: list[float], shift: float) -> None:
    low, centre, high = signed_rank_interval(values)
    assert low <= centre <= high
    moved = signed_rank_interval([value + shift for value in values])
    assert moved == pytest.approx((low + shift, centre + shift, high + shift), abs=1e-9)
    mirrored = signed_rank_interval([-value for value in values])
    assert mirrored == pytest.approx((-high, -centre, -low), abs=1e-9)


def test_a_unit_is_the_mean_of_two_logarithms() -> None:
    assert Unit(a1_ns=100, b1_ns=121, b2_ns=100, a2_ns=100).log_ratio == pytest.approx(math.log(1.1))
    assert Unit(a1_ns=100, b1_ns=110, b2_ns=121, a2_ns=110).log_ratio == pytest.approx(math.log(1.1))
    assert Unit(a1_ns=-5, b1_ns=100, b2_ns=1, a2_ns=1).log_ratio == pytest.approx(math.log(100) / 2)


def test_steady_drift_and_the_place_in_the_order_cancel() -> None:
    """A call later in the unit takes a fixed factor longer; the second of a pair 5 % longer."""
    drift = 1.01
    unit = Unit(a1_ns=100, b1_ns=100 * drift * 1.05, b2_ns=100 * drift**2, a2_ns=100 * drift**3 * 1.05)
    assert unit.log_ratio == pytest.approx(0, abs=1e-12)


def ratio(value: float, half_width: float) -> Ratio:
    return Ratio(value, Interval(value / (1 + half_width), value * (1 + half_width)))


@pytest.mark.parametrize(
    ("measured", "null", "verdict", "why"),
    [
        (ratio(1.02, 0.003), ratio(1.0, 0.003), Verdict.SLOWER, Why.APART),
        (ratio(0.97, 0.003), ratio(1.0, 0.003), Verdict.FASTER, Why.APART),
        (ratio(1.001, 0.003), ratio(1.0, 0.003), Verdict.SAME, Why.TOGETHER),
        (ratio(1.004, 0.0009), ratio(1.0, 0.003), Verdict.SAME, Why.TOGETHER),  # surely off one, by less than 0.5 %
        (ratio(1.006, 0.004), ratio(1.0, 0.003), Verdict.SLOWER, Why.APART),
        (ratio(1.004, 0.004), ratio(1.0, 0.02), Verdict.SAME, Why.TOGETHER),  # within what A against itself spans
        (ratio(1.01, 0.004), ratio(1.0, 0.02), Verdict.UNSURE, Why.WIDE),  # that too, but no longer the same
        (ratio(1.02, 0.03), ratio(1.0, 0.01), Verdict.UNSURE, Why.WIDE),
        (ratio(1.3, 0.003), ratio(1.0051, 0.003), None, Why.NULL_OFF_CENTRE),
        (ratio(1.3, 0.003), ratio(0.9949, 0.003), None, Why.NULL_OFF_CENTRE),
        (ratio(1.3, 0.003), ratio(1.0049, 0.003), Verdict.SLOWER, Why.APART),
        (ratio(1.3, 0.003), ratio(1.02, 0.05), Verdict.SLOWER, Why.APART),  # off centre by noise alone, which is little
        (ratio(1.2, 0.003), ratio(1.02, 0.05), Verdict.UNSURE, Why.WIDE),
        (ratio(240.0, 0.3), ratio(1.05, 0.01), Verdict.SLOWER, Why.APART),  # a restless machine, and a large difference
        (ratio(1 / 240, 0.3), ratio(1.05, 0.01), Verdict.FASTER, Why.APART),
        (ratio(20.0, 0.3), ratio(1.05, 0.01), None, Why.NULL_OFF_CENTRE),
    ],
)
def test_verdicts(measured: Ratio, null: Ratio, verdict: Verdict | None, why: Why) -> None:
    judgement = judge_ratio(measured, null)
    assert (judgement.verdict, judgement.why) == (verdict, why)
    assert judgement.threshold == threshold_of(null)


def test_the_threshold_is_what_a_may_differ_from_itself_and_more_on_a_restless_machine() -> None:
    assert threshold_of(ratio(1.0, 0.003)) == LEAST_THRESHOLD
    assert threshold_of(ratio(1.002, 0.006)) == pytest.approx(1.002 * 1.006 - 1)
    assert threshold_of(ratio(1 / 1.002, 0.006)) == pytest.approx(1.002 * 1.006 - 1)
    assert threshold_of(ratio(1.0, 0.02)) == pytest.approx(0.06)


def test_exchanging_a_and_b_exchanges_the_verdict() -> None:
    null = ratio(1.0, 0.004)
    for value in (0.98, 0.994, 1.0, 1.003, 1.0061, 1.03):
        forward, back = judge_ratio(ratio(value, 0.002), null), judge_ratio(ratio(1 / value, 0.002), null)
        mirrored = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
        assert back.verdict == (mirrored.get(forward.verdict, forward.verdict) if forward.verdict else None)


def test_too_few_and_too_short() -> None:
    unit = Unit(100, 100, 100, 100)
    assert judge([unit] * 7, [unit] * 8).why is Why.TOO_FEW
    short = Unit(100, -1, -1, 100)
    assert judge([unit] * 8 + [short] * 9, [unit] * 8).why is Why.TOO_SHORT
    assert judge([unit] * 15 + [short], [unit] * 8).verdict is Verdict.SAME  # one odd reading is no reason
    assert ratio_of([unit] * 8) == Ratio(1.0, Interval(1.0, 1.0))
    with pytest.raises(ValueError, match="7 units"):
        ratio_of_logs([0.0] * 7)


def test_the_score_weighs_logarithms() -> None:
    null = ratio(1.0, 0.002)
    cases = [judge_ratio(ratio(1.21, 0.001), null), judge_ratio(ratio(1.0, 0.001), null)]
    alike = judge_all(cases, [1, 1])
    assert alike is not None
    assert alike.ratio is not None
    assert alike.ratio.value == pytest.approx(1.1)
    assert alike.ratio.half_width == pytest.approx(0.001 / math.sqrt(2), rel=1e-2)
    uneven = judge_all(cases, [3, 1])
    assert uneven is not None
    assert uneven.ratio is not None
    assert uneven.ratio.value == pytest.approx(1.21**0.75)


def test_a_case_without_a_verdict_leaves_the_score_without_one() -> None:
    null, off = ratio(1.0, 0.002), ratio(1.01, 0.002)
    good, refused = judge_ratio(ratio(1.2, 0.001), null), judge_ratio(ratio(1.2, 0.001), off)
    assert judge_all([good, refused], [1, 1]) is None
    assert judge_all([], []) is None


def test_the_null_run_ends_only_at_its_counts() -> None:
    same = [Unit(100, 100, 100, 100)]
    assert [count for count in range(1, 40) if enough(same * count, 0.0, 1e9)] == [8, 16, 32]
    noisy = [Unit(100, 100 + 10 * (i % 3), 100, 100) for i in range(2048)]
    assert not enough(noisy[:64], spent_s=1.0, budget_s=2.1)
    assert enough(noisy[:64], spent_s=1.0, budget_s=1.9)
    assert enough(noisy, spent_s=0.0, budget_s=1e9)


def simulated(count: int, slower: float, rng: random.Random) -> list[Unit]:
    """Calls of 60 µs with 0.75 µs of noise on each, and an outlier in every hundred."""

    def call(factor: float) -> float:
        return 60_000 * factor + rng.gauss(0, 750) + (20_000 if rng.random() < 0.01 else 0)

    return [Unit(call(1), call(slower), call(slower), call(1)) for _ in range(count)]


def test_error_rates_on_simulated_calls() -> None:
    """The whole procedure, null run and stopping included: at most 1 % wrong where there is nothing, at least 95 %
    right where B is 1 % slower. 100 of each; the bounds leave room for chance."""
    rng = random.Random(20)
    verdicts: dict[float, list[Verdict | None]] = {1.0: [], 1.01: []}
    for _ in range(100):
        null: list[Unit] = []
        for count in UNITS:
            null += simulated(count - len(null), 1.0, rng)
            if enough(null, 0.0, 1e9):
                break
        for slower, found in verdicts.items():
            judgement: Judgement = judge(simulated(len(null), slower, rng), null)
            found.append(judgement.verdict)
    assert sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts[1.0]) <= 2
    assert verdicts[1.01].count(Verdict.SLOWER) >= 95
    assert Verdict.FASTER not in verdicts[1.01]

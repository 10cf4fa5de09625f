from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.record import StopRule
from harness.measure.stopping import LOOKS, StoppingRule

RULE = StoppingRule(budget_s=10.0, least=7)
STEADY = [1000.0] * 127
NOISY = [500.0, 1500.0] * 64


def test_stops_at_the_first_look_when_precise() -> None:
    assert RULE.decide(STEADY[:6], 0.1) is None
    assert RULE.decide(STEADY[:7], 0.1) is StopRule.PRECISE


def test_a_narrow_interval_of_too_few_calls_is_not_enough() -> None:
    rule = StoppingRule(budget_s=10.0, least=15)
    assert rule.decide(STEADY[:7], 0.1) is None
    assert rule.decide(STEADY[:15], 0.1) is StopRule.PRECISE
    assert rule.decide(STEADY[:7], 9.0) is StopRule.BUDGET


def test_the_target_is_the_half_width() -> None:
    # Of seven, the interval is the extremes: 990 to 1010 is ± 1 % of 1000.
    times = [990.0, 995.0, 999.0, 1000.0, 1001.0, 1005.0, 1010.0]
    assert RULE.decide(times, 0.1) is StopRule.PRECISE
    assert RULE.decide([*times[:-1], 1010.1], 0.1) is None


def test_looks_at_fixed_counts_only() -> None:
    for count in range(1, 127):
        assert (RULE.decide(STEADY[:count], 0.0) is not None) == (count in LOOKS)


def test_goes_to_the_most() -> None:
    assert RULE.decide(NOISY[:63], 0.1) is None
    assert RULE.decide(NOISY[:127], 0.1) is StopRule.MOST
    assert RULE.decide(NOISY[:128], 0.1) is StopRule.MOST


def test_stops_where_the_next_look_would_overrun_the_budget() -> None:
    # 7 calls took 4.6 s, so 15 would take 9.86 s; 7 in 4.7 s make 10.07 s.
    assert RULE.decide(NOISY[:7], 4.6) is None
    assert RULE.decide(NOISY[:7], 4.7) is StopRule.BUDGET
    assert RULE.decide(NOISY[:8], 100.0) is None  # not a look


def test_times_that_mean_nothing_are_not_precise() -> None:
    assert RULE.decide([0.0] * 7, 0.1) is None
    assert RULE.decide([-1.0] * 7, 0.1) is None


@given(st.lists(st.floats(1.0, 1e9), min_size=127, max_size=127), st.floats(1e-6, 10.0))
def test_sampling_always_ends(times: list[float], seconds_per_call: float) -> None:
    ended = [count for count in range(1, 128) if RULE.decide(times[:count], count * seconds_per_call) is not None]
    assert ended
    assert ended[0] in LOOKS
    assert ended[0] == 7 or ended[0] * seconds_per_call <= RULE.budget_s * (1 + 1e-9)

"""What a case is charged for outputs that lag, and which outputs are checked in full."""

from __future__ import annotations

import random

from harness.evaluation.capture import CPU_MEDIAN_ALLOWANCE, CUDA_MEDIAN_ALLOWANCE, charged_for_lag_ns
from harness.evaluation.judging import fully_checked
from harness.measure.statistics import median
from harness.measure.stopping import LOOKS

TWIN = [100_000, 90_000, 5_000_000, 110_000, 100_000]
"""Median 100 µs, so that 150 µs and the fixed part are due."""


def test_the_median_lag_beyond_the_twins_is_charged() -> None:
    assert CPU_MEDIAN_ALLOWANCE.fixed_ns == 250_000
    assert charged_for_lag_ns([400_000] * 7, TWIN, CPU_MEDIAN_ALLOWANCE) == 0
    assert charged_for_lag_ns([400_001] * 7, TWIN, CPU_MEDIAN_ALLOWANCE) == 1
    assert charged_for_lag_ns([3_000_000] * 4 + [0] * 3, TWIN, CPU_MEDIAN_ALLOWANCE) == 2_600_000
    assert charged_for_lag_ns([200_000] * 7, TWIN, CUDA_MEDIAN_ALLOWANCE) == 93_500


def test_single_lags_are_not() -> None:
    assert charged_for_lag_ns([9_000_000] * 3 + [100_000] * 4, TWIN, CPU_MEDIAN_ALLOWANCE) == 0


def test_nothing_is_charged_where_nothing_was_measured() -> None:
    assert charged_for_lag_ns([], TWIN, CUDA_MEDIAN_ALLOWANCE) == 0
    assert charged_for_lag_ns([9_000_000], [], CUDA_MEDIAN_ALLOWANCE) == 0


def test_calls_told_as_done_early_gain_the_allowance_at_most() -> None:
    """Whatever part of each call is hidden in its lag."""
    choice, call_ns, due_ns = random.Random(5), 10_000_000, 400_000
    for _ in range(200):
        lags = [choice.choice((0, choice.randrange(call_ns), call_ns)) for _ in range(choice.choice((7, 15, 31)))]
        charged = charged_for_lag_ns(lags, TWIN, CPU_MEDIAN_ALLOWANCE)
        assert median([call_ns - lag + charged for lag in lags]) >= call_ns - due_ns


def test_full_checks_go_on_after_the_first_look() -> None:
    """Two among calls 0 to 6, then one in 7 to 14, in 15 to 30, in 31 to 62 and in 63 to 126, at places that change."""
    assert LOOKS == (7, 15, 31, 63, 127)
    chosen = [sorted(fully_checked(random.Random(seed))) for seed in range(50)]
    for calls in chosen:
        assert [sum(start <= call < end for call in calls) for start, end in ((0, 7), (7, 15), (15, 31))] == [2, 1, 1]
        assert [sum(start <= call < end for call in calls) for start, end in ((31, 63), (63, 127))] == [1, 1]
    assert len({tuple(calls) for calls in chosen}) > 40

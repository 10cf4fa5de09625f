"""Wilcoxon's signed ranks: the Hodges-Lehmann estimate of a centre, and the interval about it that needs no more than
symmetry (Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3.1 to 3.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

CONFIDENCE = 0.99
FEWEST = 8
"""Values that support an interval of 99 %."""
_EXACT_UP_TO = 64
_LEAST = 5e-324
"""The least positive number."""


def signed_rank_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Low end, centre and high end: order statistics of the Walsh averages (x_i + x_j)/2, i ≤ j, and their median.

    The interval covers the centre of a symmetric distribution with at least `confidence`, whatever its shape. Raises
    ValueError where so few values support none.
    """
    walsh = _Walsh(values)
    skipped = _skipped(len(values), confidence)
    return walsh.smallest(skipped + 1), walsh.median(), walsh.smallest(walsh.count - skipped)


def hodges_lehmann(values: Sequence[float]) -> float:
    """The centre alone, of any values: it bears that 29 of 100 are far out, at 5 % more noise than a mean's without."""
    return _Walsh(values).median()


def _skipped(count: int, confidence: float) -> int:
    """How many Walsh averages to leave out at each end: the most for which both tails stay within 1 − confidence."""
    tail = (1 - confidence) / 2
    if count > _EXACT_UP_TO:
        from statistics import NormalDist  # dear to import, and only a measurement comes here

        mean = count * (count + 1) / 4
        deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return max(0, math.floor(mean + NormalDist().inv_cdf(tail) * deviation - 0.5))
    allowed = tail * 2**count
    below = 0
    for rank_sum, ways in enumerate(_signed_rank_ways(count)):
        below += ways
        if below > allowed:
            if rank_sum == 0:
                raise ValueError(f"{count} values support no interval of {confidence:.0%}")
            return rank_sum - 1
    raise AssertionError("the tail exceeds its share before the end")


@cache
def _signed_rank_ways(count: int) -> tuple[int, ...]:
    """In how many of the 2ⁿ choices of signs the positive ranks add up to 0, 1, 2, …"""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for rank_sum, number in enumerate(ways):
            longer[rank_sum + rank] += number
        ways = longer
    return tuple(ways)


class _Walsh:
    """Order statistics of the Walsh averages of some values, without making all n²/2 of them when n is large."""

    def __init__(self, values: Sequence[float]) -> None:
        self._ordered = ordered = sorted(values)
        self.count = len(ordered) * (len(ordered) + 1) // 2
        self._all: list[float] | None = None
        if len(ordered) <= _EXACT_UP_TO:
            self._all = sorted((x + y) / 2 for i, x in enumerate(ordered) for y in ordered[i:])

    def median(self) -> float:
        middle = self.smallest((self.count + 1) // 2)
        return middle if self.count % 2 else (middle + self.smallest(self.count // 2 + 1)) / 2

    def smallest(self, position: int) -> float:
        """The one at this position, counted from 1; for many values to within rounding."""
        if self._all is not None:
            return self._all[position - 1]
        low, high = self._ordered[0], self._ordered[-1]
        if low <= 0 <= high:  # towards a 0 halving would go on for a thousand steps
            if self._at_most(-_LEAST) >= position:
                high = -_LEAST
            elif self._at_most(0.0) >= position:
                return 0.0
            else:
                low = 0.0
        while True:
            middle = (low + high) / 2
            if not low < middle < high:
                return high
            if self._at_most(middle) >= position:
                high = middle
            else:
                low = middle

    def _at_most(self, limit: float) -> int:
        """How many averages are at most `limit`."""
        ordered, count, upper = self._ordered, 0, len(self._ordered) - 1
        twice = 2 * limit
        for lower, value in enumerate(ordered):
            while upper >= lower and value + ordered[upper] > twice:
                upper -= 1
            if upper < lower:
                break
            count += upper - lower + 1
        return count

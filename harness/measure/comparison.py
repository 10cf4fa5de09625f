"""Is B faster than A? Paired times, a null run of A against itself, and a verdict that can be held to its error rates.

A unit is four calls on two inputs, in the order A B on the first and B A on the second. Its value is the mean of the
two logarithms of B's time over A's: what drifts slowly, and what the place in the order does, cancels within the unit,
and what an input costs cancels within each pair. Exchanging A and B turns the value's sign, so that without a
difference it is distributed symmetrically about zero, which is all that the interval assumes: it is the one of
Wilcoxon's signed ranks about the Hodges-Lehmann estimate (Hollander, Wolfe and Chicken, *Nonparametric Statistical
Methods*, 3.1 to 3.3). All times are nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from harness.measure.statistics import Interval, median

CONFIDENCE = 0.99
"""Of every interval here. A difference that is none is called one in at most 1 % of comparisons."""
LEAST_THRESHOLD = 0.005
"""No ratio nearer to one than this is called a difference, however narrow its interval."""
MOST_OFF_CENTRE = 0.005
"""If A against itself is surely off one, by more than this, something other than the versions makes a difference."""
TIMES_THAT = 64
"""Then only a difference so many times as large is one of the versions: of two differences of the same origin, normally
distributed, one is 64 times the other in 1 % of cases."""
MOST_ALIKE = 0.01
"""However restless the machine, versions whose interval reaches further from one than this are not called the same."""
RESTLESS, TIMES_RESTLESS = 0.01, 3
"""Where A may differ from itself by more than 1 %, units that follow one another are noisy together, which no interval
knows of; B must then differ by three times that. (On a CPU with company 2 of 80 A against A were called different so, 8
of 80 without.)"""
TARGET_HALF_WIDTH = 0.003
"""Half-width of the null run's interval at which more units are not worth their time."""
UNITS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Counts at which the null run may end. Eight units are the fewest that support an interval of 99 %."""
_EXACT_UP_TO = 64


class Verdict(StrEnum):
    """Of B's time against A's."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNSURE = "unsure"


class Why(StrEnum):
    """What a verdict, or the refusal of one, rests on."""

    APART = "apart"  # the interval excludes one, and the ratio is beyond the threshold
    TOGETHER = "together"  # the whole interval lies within the threshold
    WIDE = "wide"  # neither: the interval is too wide
    NULL_OFF_CENTRE = "null_off_centre"  # A against itself differs, and B not by much more
    TOO_SHORT = "too_short"  # a call took no longer than a call of nothing
    TOO_FEW = "too_few"  # fewer units than an interval takes


@dataclass(frozen=True)
class Unit:
    """The four times of one unit, each less the clock's own cost: A and B on the first input, B and A on the second."""

    a1_ns: float
    b1_ns: float
    b2_ns: float
    a2_ns: float

    @property
    def log_ratio(self) -> float:
        """Mean logarithm of B over A. A single time may be zero or less by noise; it counts as a nanosecond, far out,
        which is all that ranks see of it."""
        a1, b1, b2, a2 = (max(time, 1.0) for time in (self.a1_ns, self.b1_ns, self.b2_ns, self.a2_ns))
        return (math.log(b1 / a1) + math.log(b2 / a2)) / 2


@dataclass(frozen=True)
class Ratio:
    """B's time over A's with its 99 % interval."""

    value: float
    interval: Interval

    @property
    def half_width(self) -> float:
        """Of the interval, relative: 0.003 for ± 0.3 %."""
        return math.sqrt(self.interval.high / self.interval.low) - 1


@dataclass(frozen=True)
class Judgement:
    """`verdict` is None when nothing can be said; `why` says what it rests on. `threshold` is relative: 0.005."""

    verdict: Verdict | None
    why: Why
    ratio: Ratio | None
    null: Ratio | None
    threshold: float


def ratio_of(units: Sequence[Unit]) -> Ratio | None:
    """The ratio that units show; None for fewer than eight, and when A's or B's median time is not positive."""
    if len(units) < UNITS[0]:
        return None
    a_ns = [time for unit in units for time in (unit.a1_ns, unit.a2_ns)]
    b_ns = [time for unit in units for time in (unit.b1_ns, unit.b2_ns)]
    if min(median(a_ns), median(b_ns)) <= 0:
        return None
    return ratio_of_logs([unit.log_ratio for unit in units])


def ratio_of_logs(logs: Sequence[float]) -> Ratio:
    """As `ratio_of`, from the units' logarithms. Raises ValueError for fewer than eight."""
    if len(logs) < UNITS[0]:
        raise ValueError(f"{len(logs)} units, of at least {UNITS[0]}")
    low, centre, high = signed_rank_interval(logs)
    return Ratio(math.exp(centre), Interval(math.exp(low), math.exp(high)))


def judge(units: Sequence[Unit], null_units: Sequence[Unit]) -> Judgement:
    """The verdict on one case, from its units and those of the null run."""
    null, ratio = ratio_of(null_units), ratio_of(units)
    if null is None or ratio is None:
        few = min(len(units), len(null_units)) < UNITS[0]
        return Judgement(None, Why.TOO_FEW if few else Why.TOO_SHORT, ratio, null, LEAST_THRESHOLD)
    return judge_ratio(ratio, null)


def judge_ratio(ratio: Ratio, null: Ratio) -> Judgement:
    """The verdict on a ratio, given that of A against itself.

    The null run sets the threshold: 0.5 %, or the further end of its interval from one, three times that where it is
    beyond 1 %. Where it is surely off centre, by more than 0.5 %, only a far larger difference gets a verdict. Faster
    or slower: the interval excludes one and the ratio is beyond the threshold. Same: the whole interval lies within
    the threshold, and within 1 %. Unsure otherwise.
    """
    threshold = threshold_of(null)
    if off_centre(null) and abs(math.log(ratio.value)) < TIMES_THAT * abs(math.log(null.value)):
        return Judgement(None, Why.NULL_OFF_CENTRE, ratio, null, threshold)
    low, high = ratio.interval.low, ratio.interval.high
    alike = min(threshold, MOST_ALIKE)
    if low > 1 and ratio.value > 1 + threshold:
        return Judgement(Verdict.SLOWER, Why.APART, ratio, null, threshold)
    if high < 1 and ratio.value < 1 / (1 + threshold):
        return Judgement(Verdict.FASTER, Why.APART, ratio, null, threshold)
    if 1 / (1 + alike) <= low and high <= 1 + alike:
        return Judgement(Verdict.SAME, Why.TOGETHER, ratio, null, threshold)
    return Judgement(Verdict.UNSURE, Why.WIDE, ratio, null, threshold)


def threshold_of(null: Ratio) -> float:
    """How far from one B's ratio must be, relative, where A's to itself is `null`."""
    own = max(null.interval.high, 1 / null.interval.low) - 1
    return max(LEAST_THRESHOLD, own if own <= RESTLESS else TIMES_RESTLESS * own)


def off_centre(null: Ratio) -> bool:
    """Whether A surely differs from itself, by more than noise and more than is borne."""
    near = 1 / (1 + MOST_OFF_CENTRE) <= null.value <= 1 + MOST_OFF_CENTRE
    return not near and not null.interval.low <= 1 <= null.interval.high


def judge_all(cases: Sequence[Judgement], weights: Sequence[float]) -> Judgement | None:
    """The verdict on the score: a weighted mean of the cases' logarithms (equal weights for a geometric mean).

    The cases' errors are taken as independent, so their half-widths add in quadrature, as do those of the null runs.
    None without cases, and when some case could not be measured or was refused a verdict.
    """
    if not cases or any(case.verdict is None for case in cases):
        return None
    ratios = [case.ratio for case in cases if case.ratio is not None]
    nulls = [case.null for case in cases if case.null is not None]
    return judge_ratio(_mean(ratios, weights), _mean(nulls, weights))


def _mean(ratios: Sequence[Ratio], weights: Sequence[float]) -> Ratio:
    shares = [weight / math.fsum(weights) for weight in weights]
    terms = [(math.log(r.value), math.log(r.interval.low), math.log(r.interval.high)) for r in ratios]
    centre = math.fsum(share * term[0] for share, term in zip(shares, terms, strict=True))
    below = math.hypot(*(share * (term[0] - term[1]) for share, term in zip(shares, terms, strict=True)))
    above = math.hypot(*(share * (term[2] - term[0]) for share, term in zip(shares, terms, strict=True)))
    return Ratio(math.exp(centre), Interval(math.exp(centre - below), math.exp(centre + above)))


def enough(units: Sequence[Unit], spent_s: float, budget_s: float) -> bool:
    """Whether the null run may end: only at one of `UNITS`, when its interval is narrow enough or when the next count
    would end beyond the budget.

    It looks at the width alone, never at the centre, so stopping early favours no verdict; the run that decides takes
    the same number of units whatever it shows.
    """
    count = len(units)
    if count not in UNITS:
        return False
    if count == UNITS[-1]:
        return True
    ratio = ratio_of(units)
    if ratio is not None and ratio.half_width <= TARGET_HALF_WIDTH:
        return True
    return spent_s * UNITS[UNITS.index(count) + 1] / count > budget_s


# -- signed ranks -----------------------------------------------------------------------------------------------------


def signed_rank_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Low end, centre and high end: order statistics of the Walsh averages (x_i + x_j)/2, i ≤ j, and their median.

    The interval covers the centre of a symmetric distribution with at least `confidence`, whatever its shape. Raises
    ValueError where so few values support none.
    """
    ordered = sorted(values)
    total = len(ordered) * (len(ordered) + 1) // 2
    skipped = _skipped(len(ordered), confidence)
    walsh = _Walsh(ordered)
    middle = walsh.smallest((total + 1) // 2)
    centre = middle if total % 2 else (middle + walsh.smallest(total // 2 + 1)) / 2
    return walsh.smallest(skipped + 1), centre, walsh.smallest(total - skipped)


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
    """Order statistics of the Walsh averages of sorted values, without making all n²/2 of them when n is large."""

    def __init__(self, ordered: Sequence[float]) -> None:
        self._ordered = ordered
        self._all: list[float] | None = None
        if len(ordered) <= _EXACT_UP_TO:
            self._all = sorted((x + y) / 2 for i, x in enumerate(ordered) for y in ordered[i:])

    def smallest(self, position: int) -> float:
        """The one at this position, counted from 1; for many values to within rounding."""
        if self._all is not None:
            return self._all[position - 1]
        low, high = self._ordered[0], self._ordered[-1]
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

"""Is B faster than A? Paired times, a null run of A against itself, and a verdict that can be held to its error rates.

A unit is four calls on two inputs, in the order A B on the first and B A on the second. Its value is the mean of the
two logarithms of B's time over A's: what drifts slowly, and what the place in the order does, cancels within the unit,
and what an input costs cancels within each pair. Exchanging A and B turns the value's sign, so that without a
difference it is distributed symmetrically about zero, which is all that the interval assumes: it is the one of
Wilcoxon's signed ranks about the Hodges-Lehmann estimate (`signed_rank.py`). Where several processes of each version
are measured, what they differ by widens it (`processes.py`). All times are nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.measure.processes import Processes, foreseen_half_width, mean_of, null_left, parts
from harness.measure.signed_rank import FEWEST, signed_rank_interval
from harness.measure.statistics import Interval, median

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
"""Half-width, foreseen from the null run, at which more units are not worth their time."""
LITTLE = 0.25
"""Nor are they where so little of that half-width is the units': the rest is the processes', which stays."""
UNITS = (FEWEST, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Counts at which the null run may end."""


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
    """B's time over A's with its 99 % interval, which holds the units' noise and what processes differ by."""

    value: float
    by_units: Interval
    processes: Processes | None = None
    """None where that is not known, of one process, and in a null run, where it adds up to nothing."""

    @property
    def interval(self) -> Interval:
        """The wider of the units' and the processes', on each side: what processes differ by holds the units' noise."""
        if self.processes is None:
            return self.by_units
        beside = math.exp(self.processes.half_width)
        return Interval(min(self.by_units.low, self.value / beside), max(self.by_units.high, self.value * beside))

    @property
    def half_width(self) -> float:
        """Of the interval, relative: 0.003 for ± 0.3 %."""
        return math.sqrt(self.interval.high / self.interval.low) - 1

    @property
    def rests_on_processes(self) -> bool:
        """Whether more units would hardly narrow the interval."""
        own, whole = self.by_units, self.interval
        return math.log(own.high / own.low) <= LITTLE * math.log(whole.high / whole.low)


@dataclass(frozen=True)
class Judgement:
    """`verdict` is None when nothing can be said; `why` says what it rests on. `threshold` is relative: 0.005."""

    verdict: Verdict | None
    why: Why
    ratio: Ratio | None
    null: Ratio | None
    threshold: float


def ratio_of(units: Sequence[Unit], processes: int = 1) -> Ratio | None:
    """The ratio that the units of a run of A against B show, in their order, of so many processes of each; None for
    fewer than eight, or than processes, and when A's or B's median time is not positive."""
    logs = _logs(units, processes)
    return None if logs is None else ratio_of_logs(logs, processes)


def null_ratio_of(units: Sequence[Unit], processes: int = 1) -> Ratio | None:
    """As `ratio_of`, of a null run."""
    logs = _logs(units, processes)
    return None if logs is None else null_ratio_of_logs(logs, processes)


def ratio_of_logs(logs: Sequence[float], processes: int = 1) -> Ratio:
    """As `ratio_of`, from the units' logarithms. Raises ValueError for fewer than eight, or than processes."""
    _check_count(len(logs), processes)
    made_of = parts(logs, processes)
    return _ratio(made_of.left, made_of.processes)


def null_ratio_of_logs(logs: Sequence[float], processes: int = 1) -> Ratio:
    """As `null_ratio_of`, from the units' logarithms. Raises ValueError for fewer than eight, or than processes."""
    _check_count(len(logs), processes)
    return _ratio(null_left(logs, processes))


def _check_count(count: int, processes: int) -> None:
    if count < _fewest(processes):
        raise ValueError(f"{count} units, of at least {_fewest(processes)}")


def _fewest(processes: int) -> int:
    return max(FEWEST, processes)


def _ratio(logs: Sequence[float], processes: Processes | None = None) -> Ratio:
    low, centre, high = signed_rank_interval(logs)
    return Ratio(math.exp(centre), Interval(math.exp(low), math.exp(high)), processes)


def _logs(units: Sequence[Unit], processes: int) -> list[float] | None:
    if len(units) < _fewest(processes):
        return None
    a_ns = [time for unit in units for time in (unit.a1_ns, unit.a2_ns)]
    b_ns = [time for unit in units for time in (unit.b1_ns, unit.b2_ns)]
    if min(median(a_ns), median(b_ns)) <= 0:
        return None
    return [unit.log_ratio for unit in units]


def judge(units: Sequence[Unit], null_units: Sequence[Unit], processes: int = 1) -> Judgement:
    """The verdict on one case, from its units and those of the null run, of so many processes of each version."""
    null, ratio = null_ratio_of(null_units, processes), ratio_of(units, processes)
    if null is None or ratio is None:
        few = min(len(units), len(null_units)) < _fewest(processes)
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

    The units' errors are taken as independent, so their half-widths add in quadrature, as do those of the null runs.
    The processes are the same in all cases; of each the mean over the cases is formed, and then what these differ by.
    None without cases, and when some case could not be measured or was refused a verdict.
    """
    if not cases or any(case.verdict is None for case in cases):
        return None
    ratios = [case.ratio for case in cases if case.ratio is not None]
    nulls = [case.null for case in cases if case.null is not None]
    return judge_ratio(_mean(ratios, weights), _mean(nulls, weights))


def _mean(ratios: Sequence[Ratio], weights: Sequence[float]) -> Ratio:
    shares = [weight / math.fsum(weights) for weight in weights]
    terms = [(math.log(r.value), math.log(r.by_units.low), math.log(r.by_units.high)) for r in ratios]
    centre = math.fsum(share * term[0] for share, term in zip(shares, terms, strict=True))
    below = math.hypot(*(share * (term[0] - term[1]) for share, term in zip(shares, terms, strict=True)))
    above = math.hypot(*(share * (term[2] - term[0]) for share, term in zip(shares, terms, strict=True)))
    interval = Interval(math.exp(centre - below), math.exp(centre + above))
    return Ratio(math.exp(centre), interval, mean_of([ratio.processes for ratio in ratios], shares))


def may_end(count: int, processes: int = 1) -> bool:
    """Whether the null run may end at this count of units: `enough` says no at any other."""
    return count in UNITS and count % processes == 0


def enough(units: Sequence[Unit], spent_s: float, budget_s: float, processes: int = 1) -> bool:
    """Whether the null run may end: only at one of `UNITS`, when the interval that it foresees is narrow enough or as
    wide as the processes make it, or when the next count would end beyond the budget.

    What is foreseen from fewer than eight cycles of processes is too often narrow by chance to end on.

    It looks at the width alone, never at the centre, so stopping early favours no verdict; the run that decides takes
    the same number of units whatever it shows.
    """
    count = len(units)
    if not may_end(count, processes):
        return False
    if count == UNITS[-1]:
        return True
    null = null_ratio_of(units, processes)
    if null is not None:
        of_units = null.half_width
        known = count >= FEWEST * processes
        foreseen = max(of_units, foreseen_half_width([unit.log_ratio for unit in units], processes))
        if known and (foreseen <= TARGET_HALF_WIDTH or of_units <= LITTLE * foreseen):
            return True
    return spent_s * UNITS[UNITS.index(count) + 1] / count > budget_s

"""Medians, geometric means and their intervals.

All times are nanoseconds. Sources: the order-statistic interval of a median is textbook (David and Nagaraja, *Order
Statistics*, 7.1); the interval of a score combines its cases' intervals by the delta method, with no resampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.boards.board import RankBy
from harness.evaluation.record import Samples

TAIL_ODDS = 40
"""One in 40 is left to each tail, so intervals cover with 95 %."""
MOST_OVER_LEAST = 1.5
"""Undisturbed no-op calls vary by less, on CPUs as on GPUs."""
FEWEST_OF_A_WORKER = 3
FEWEST_FOR_INTERVAL = 6
"""With five samples even the whole range covers the median with probability 0.9375 only."""


@dataclass(frozen=True)
class Interval:
    """A closed interval, in the unit of what it bounds; `low <= high`."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Figure:
    """A value in nanoseconds with its 95 % interval, None where the samples do not support one."""

    value_ns: float
    interval_ns: Interval | None

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the value, e.g. 0.01 for ± 1 %."""
        return None if self.interval_ns is None else self.interval_ns.half_width / self.value_ns

    @property
    def is_resolved(self) -> bool:
        """Whether there is an interval, and it tells the value from zero."""
        return self.interval_ns is not None and self.interval_ns.low > 0


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones. Raises ValueError on an empty sequence."""
    if not values:
        raise ValueError("the median of no values")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[middle])
    return (ordered[middle - 1] + ordered[middle]) / 2


def median_interval(values: Sequence[float]) -> Interval | None:
    """The narrowest symmetric pair of order statistics that covers the median with at least 95 %.

    It holds for independent samples of any distribution: the number of samples below the median is
    binomial(n, 1/2). None below 6 samples.
    """
    if len(values) < FEWEST_FOR_INTERVAL:
        return None
    ordered = sorted(values)
    skipped = _order_statistic(len(ordered))
    return Interval(float(ordered[skipped]), float(ordered[-1 - skipped]))


def _order_statistic(count: int) -> int:
    """How many samples to leave out at each end: the most for which both tails together stay within 5 %."""
    tail = 0
    for skipped in range(count // 2 + 1):
        tail += math.comb(count, skipped)
        if tail * TAIL_ODDS > 2**count:
            return skipped - 1
    raise AssertionError("the tail exceeds 5 % before the middle")


def level(values: Sequence[float], workers: int) -> float:
    """The mean of the medians that each of `workers` processes found, value i being of process i mod `workers`; the
    median of all values where some process has fewer than FEWEST_OF_A_WORKER.

    Processes fall into kinds that differ by more than what one of them measures varies, so the median of all values
    would be that of the kind that has the majority. A median of one or two values is no shelter from a disturbed one.
    """
    medians = medians_of_workers(values, workers)
    return math.fsum(medians) / len(medians) if medians else median(values)


def medians_of_workers(values: Sequence[float], workers: int) -> list[float]:
    """The median of each of several processes; empty where one of them has too few values, and for a single process."""
    if workers == 1 or len(values) < FEWEST_OF_A_WORKER * workers:
        return []
    return [median(values[worker::workers]) for worker in range(workers)]


def level_interval(values: Sequence[float], workers: int) -> Interval | None:
    """The 95 % interval of `level`: that of a median where it is one, else Student's, of which each process is one
    observation (Kalibera and Jones, *Rigorous Benchmarking in Reasonable Time*, 2013: what varies at the highest level
    is what counts, and it holds the noise of the levels below). None for fewer than 6 values."""
    medians = medians_of_workers(values, workers)
    if not medians:
        return median_interval(values)
    mean = math.fsum(medians) / len(medians)
    variance = math.fsum((value - mean) ** 2 for value in medians) / (len(medians) - 1)
    half_width = students_t(len(medians) - 1) * math.sqrt(variance / len(medians))
    return Interval(mean - half_width, mean + half_width)


# Student's t at 97.5 %, by degrees of freedom (any table of it; e.g. NIST Handbook of Statistical Methods, 1.3.6.7.2).
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
      12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000}  # fmt: skip


def students_t(freedom: int) -> float:
    """Student's t at 97.5 % for at least one degree of freedom; between entries of the table the larger value."""
    return _T[max(degrees for degrees in _T if degrees <= freedom)]


def cost_of_no_op(no_ops_ns: Sequence[float]) -> float:
    """What a call of nothing costs: the median of such calls, of whatever twins, or MOST_OVER_LEAST times the quickest
    of them where that is less; 0.0 for none.

    On a busy machine most of them may wait for a processor, for which the timed calls need not have waited: taken off
    those, the wait would be credit, and a kernel that sleeps 15 ms be measured at 12.
    """
    return min(median(no_ops_ns), MOST_OVER_LEAST * min(no_ops_ns)) if no_ops_ns else 0.0


def case_times_ns(samples: Samples) -> list[float]:
    """Each timed call less what the no-op calls cost, in order.

    Nothing is clipped: a single difference may be zero or negative by noise. Whether the figure means anything is
    for `case_figure` to say, from the median.
    """
    subtracted = cost_of_no_op(samples.overhead_ns)
    return [wall_ns - subtracted for wall_ns in samples.wall_ns]


def case_figure(samples: Samples | None) -> Figure | None:
    """The level of a case's times with its interval, or None when there is no meaningful figure.

    That is when there are no samples, or when a call took no longer than a no-op call, so that the level is not
    positive. The interval is that of the times widened by the uncertainty of the no-op calls' cost, which shifts all
    times alike: the two half-widths are combined in quadrature on each side. No time is below zero, so an interval that
    would reach there begins at zero: such a time is not told from none at all (`Figure.is_resolved`).
    """
    if samples is None or not samples.wall_ns:
        return None
    times_ns = case_times_ns(samples)
    value_ns = level(times_ns, samples.workers)
    if not value_ns > 0:
        return None
    interval = level_interval(times_ns, samples.workers)
    if interval is not None and samples.overhead_ns:
        overhead = median_interval(samples.overhead_ns)
        subtracted = cost_of_no_op(samples.overhead_ns)
        interval = overhead and _widened(value_ns, interval, subtracted, overhead)
    return Figure(value_ns, interval and _of_times(interval.low, interval.high))


def _of_times(low: float, high: float) -> Interval:
    """The part of an interval that a time can lie in: what covers the true time still does."""
    return Interval(max(low, 0.0), high)


def _widened(value: float, interval: Interval, subtracted: float, subtracted_interval: Interval) -> Interval:
    """The interval of a difference, from those of its two terms; `interval` is already shifted by `subtracted`, which
    may lie below its own interval."""
    low = math.hypot(value - interval.low, subtracted_interval.high - subtracted)
    high = math.hypot(interval.high - value, max(0.0, subtracted - subtracted_interval.low))
    return Interval(value - low, value + high)


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm. Raises ValueError on no values, and on zero, negative or non-finite ones."""
    first = _positive(values)[0]
    # Relative to the first value, so that equal values give exactly that value back.
    return first * math.exp(math.fsum(math.log(value) - math.log(first) for value in values) / len(values))


def score_ns(rank_by: RankBy, medians_ns: Sequence[float]) -> float:
    """The score of a board from its cases' medians, in grid order. Lower is better.

    Raises ValueError on no values, on zero, negative or non-finite ones, and for `last` with more than one, as the
    public service does.
    """
    values = _positive(medians_ns)
    if rank_by is RankBy.GEOM:
        return geometric_mean(values)
    if rank_by is RankBy.MEAN:
        return math.fsum(values) / len(values)
    if len(values) != 1:
        raise ValueError(f"ranking_by last takes one benchmark, not {len(values)}")
    return float(values[0])


def score(rank_by: RankBy, cases: Sequence[Figure | None]) -> Figure | None:
    """The score with its interval. None when a case has no figure; the interval is None when a case has none.

    The cases' errors are taken as independent, so their half-widths add in quadrature: of the logarithms for `geom`
    (the derivative of log geomean by log x_i is 1/k), of the values for `mean`. The two sides are kept apart.
    """
    figures = [case for case in cases if case is not None]
    if not figures or len(figures) < len(cases):
        return None
    value = score_ns(rank_by, [figure.value_ns for figure in figures])
    intervals = [figure.interval_ns for figure in figures if figure.interval_ns is not None]
    if len(intervals) < len(figures):
        return Figure(value, None)
    if rank_by is RankBy.GEOM:
        if min(interval.low for interval in intervals) <= 0:
            return Figure(value, None)  # a case whose interval reaches zero bounds no product
        logs = [
            (math.log(figure.value_ns), math.log(interval.low), math.log(interval.high))
            for figure, interval in zip(figures, intervals, strict=True)
        ]
        low, high = _quadrature(logs)
        return Figure(value, Interval(value * math.exp(-low), value * math.exp(high)))
    values = [
        (figure.value_ns, interval.low, interval.high) for figure, interval in zip(figures, intervals, strict=True)
    ]
    low, high = _quadrature(values)
    return Figure(value, _of_times(value - low, value + high))


def ratio(new: Figure, old: Figure) -> tuple[float, Interval | None]:
    """new / old and its interval, from both intervals' extremes (so it covers with more than 95 %).

    None when either has none, and when the old time is not told from zero, so that nothing bounds the ratio from above.
    """
    value = new.value_ns / old.value_ns
    if new.interval_ns is None or old.interval_ns is None or old.interval_ns.low <= 0:
        return value, None
    new_times = _of_times(new.interval_ns.low, new.interval_ns.high)  # results of old may reach below zero
    return value, Interval(new_times.low / old.interval_ns.high, new_times.high / old.interval_ns.low)


def _quadrature(terms: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Half-widths below and above of the mean of (value, low, high) terms."""
    low = math.sqrt(math.fsum((value - lower) ** 2 for value, lower, _ in terms)) / len(terms)
    high = math.sqrt(math.fsum((upper - value) ** 2 for value, _, upper in terms)) / len(terms)
    return low, high


def _positive(values: Sequence[float]) -> Sequence[float]:
    if not values:
        raise ValueError("no values")
    for value in values:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{value} is not a positive finite time")
    return values

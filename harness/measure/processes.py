"""Several processes of each version: which of them meet in a unit, and what their differences leave uncertain.

On a GPU two processes that run the same kernel differ steadily, by about 0.25 µs where a call is a few launches, for as
long as they live: more units of the same two processes tell that difference better, and B's from A's no better. So a
comparison has `processes` of each version, R in what follows. Within a cycle of R units every process has one unit, and
over R² units each of A's meets each of B's equally often. What a process adds is then the same in every cycle, and its
variance is seen in what the processes' own means differ by (the two levels of Kalibera and Jones, *Rigorous
Benchmarking in Reasonable Time*, 2013, for two crossed sets of processes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.measure.signed_rank import FEWEST

PROCESSES = (1, 2, 4, 8)
"""Of each version. Every count of units is a multiple of these."""
MOST = PROCESSES[-1]
_STUDENTS_T = {2: 9.925, 4: 3.707, 8: 2.977}
"""At 99.5 %, for the 2(R - 1) degrees of freedom of R processes (NIST Handbook of Statistical Methods, 1.3.6.7.2)."""


def pair(unit: int, processes: int) -> tuple[int, int]:
    """Which process of A and which of B a unit is of, by its number in the run."""
    return unit % processes, (unit + unit // processes) % processes


def null_pair(unit: int, processes: int) -> tuple[int, int]:
    """Which two processes of A a unit of the null run is of: each and the next, in a ring, so that over a cycle their
    differences add up to nothing. A lone one meets a second, which has no other use."""
    first = unit % processes
    return first, (first + 1) % max(processes, 2)


def by_cycles(logs: Sequence[float], processes: int) -> Sequence[float]:
    """The units' logarithms, or their means over whole cycles where these are enough for an interval. No difference
    between processes is in the spread of such means."""
    cycles = len(logs) // processes
    if processes == 1 or cycles < FEWEST:
        return logs
    return [_mean(logs[cycle * processes : (cycle + 1) * processes]) for cycle in range(cycles)]


@dataclass(frozen=True)
class Processes:
    """The mean of the units of each process of A, and of each of B, as logarithms of B over A."""

    of_a: tuple[float, ...]
    of_b: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.of_a)

    @property
    def half_width(self) -> float:
        """Of the 99 % interval for what is common to all processes, as a logarithm: Student's.

        The variance is pooled from A's processes and B's, taken to be alike. The units' own noise is in it, twice
        where noise is all there is, so it errs to the wide side. Fewer than R² units are not balanced: the means
        then hold parts of the other side's differences too, which adds a third to the variance at 8 units of 4
        processes and takes some of the degrees of freedom.
        """
        pooled = (_squares(self.of_a) + _squares(self.of_b)) / (2 * (self.count - 1))
        return _half_width(pooled, self.count)


def processes_of(logs: Sequence[float], processes: int) -> Processes | None:
    """From the logarithms of A against B, in the order of the run; None of a single process, which tells nothing."""
    if processes == 1:
        return None
    of_a: list[list[float]] = [[] for _ in range(processes)]
    of_b: list[list[float]] = [[] for _ in range(processes)]
    for unit, log in enumerate(logs):
        a, b = pair(unit, processes)
        of_a[a].append(log)
        of_b[b].append(log)
    return Processes(tuple(map(_mean, of_a)), tuple(map(_mean, of_b)))


def mean_of(each: Sequence[Processes | None], shares: Sequence[float]) -> Processes | None:
    """Of several cases that the same processes ran, so that what is particular to one is in all of them: by process,
    weighted. Cases of a single process have no part in it."""
    known = [(one, share) for one, share in zip(each, shares, strict=True) if one is not None]
    if not known:
        return None
    return Processes(
        tuple(math.fsum(share * one.of_a[i] for one, share in known) for i in range(known[0][0].count)),
        tuple(math.fsum(share * one.of_b[i] for one, share in known) for i in range(known[0][0].count)),
    )


def foreseen_half_width(null_logs: Sequence[float], processes: int) -> float:
    """What `half_width` will about be, as the null run shows it: neighbours in the ring differ by twice the variance of
    one process, about a mean that is nothing. 0.0 for a single process."""
    if processes == 1:
        return 0.0
    means = [_mean(null_logs[first::processes]) for first in range(processes)]
    return _half_width(_squares(means) / (2 * processes), processes)


def _half_width(variance: float, processes: int) -> float:
    return _STUDENTS_T[processes] * math.sqrt(variance * 2 / processes)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    """Summed, of the distances from the mean."""
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)

"""Several processes of each version: which of them meet in a unit, and what their differences leave uncertain.

On a GPU two processes that run the same kernel differ steadily, by about 0.25 µs where a call is a few launches, for as
long as they live: more units of the same two processes tell that difference better, and B's from A's no better. So a
comparison has `processes` of each version, R in what follows. Within a cycle of R units every process has one unit, and
over R² units each of A's meets each of B's equally often. What a process adds is then the same in every cycle, and its
variance is seen in what the processes' own centres differ by (the two levels of Kalibera and Jones, *Rigorous
Benchmarking in Reasonable Time*, 2013, for two crossed sets of processes).

One call in twenty may take half as long again, on a GPU too. A mean would be made of these; so what a process adds is a
Hodges-Lehmann estimate, from which in turn what the other set's processes add is taken off, as in Tukey's median
polish (*Exploratory Data Analysis*, 1977, chapter 11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.measure.signed_rank import FEWEST, hodges_lehmann

PROCESSES = (1, 2, 4, 8, 16)
"""Of each version. A run's count of units is a multiple of its own."""
MOST = PROCESSES[-1]
_STUDENTS_T = {2: 9.925, 4: 3.707, 8: 2.977, 16: 2.750}
"""At 99.5 %, for the 2(R - 1) degrees of freedom of R processes (NIST Handbook of Statistical Methods, 1.3.6.7.2)."""
_SWEEPS = 4
"""Of the polish. Two change the estimates by less than their noise."""


def pair(unit: int, processes: int) -> tuple[int, int]:
    """Which process of A and which of B a unit is of, by its number in the run."""
    return unit % processes, (unit + unit // processes) % processes


def null_pair(unit: int, processes: int) -> tuple[int, int]:
    """Which two processes of A a unit of the null run is of: each and the next, in a ring, so that over a cycle their
    differences add up to nothing. A lone one meets a second, which has no other use."""
    first = unit % processes
    return first, (first + 1) % max(processes, 2)


@dataclass(frozen=True)
class Processes:
    """The centre of the units of each process of A, and of each of B, as logarithms of B over A."""

    of_a: tuple[float, ...]
    of_b: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.of_a)

    @property
    def half_width(self) -> float:
        """Of the 99 % interval, as a logarithm: Student's.

        The variance is pooled from A's processes and B's, taken to be alike. The units' own noise is in it, twice
        where noise is all there is, so it errs to the wide side.
        """
        pooled = (_squares(self.of_a) + _squares(self.of_b)) / (2 * (self.count - 1))
        return _half_width(pooled, self.count)


@dataclass(frozen=True)
class Parts:
    """What the logarithms of a run are made of."""

    left: Sequence[float]
    """Each unit without what its processes add, where the run is long enough to know that; about the run's centre."""
    processes: Processes | None
    """None of a single process of each, which tells nothing."""


def parts(logs: Sequence[float], processes: int) -> Parts:
    """Of a run of A against B, in its order.

    In fewer than eight cycles, what the two sets add is not told from one another: then a process's centre holds parts
    of the other side's differences too, which adds a third to the variance at 8 units of 4 processes and takes some of
    the degrees of freedom, and `left` are the logarithms themselves.
    """
    if processes == 1:
        return Parts(logs, None)
    pairs = [pair(unit, processes) for unit in range(len(logs))]
    sides = [[a for a, _ in pairs], [b for _, b in pairs]]
    if len(logs) < FEWEST * processes:
        alone = [_polish(logs, [side], processes)[1][0] for side in sides]
        return Parts(logs, Processes(alone[0], alone[1]))
    left, (of_a, of_b) = _polish(logs, sides, processes)
    return Parts(left, Processes(of_a, of_b))


def null_left(logs: Sequence[float], processes: int) -> Sequence[float]:
    """`Parts.left` of a null run, where each process and the next differ by something that adds up to nothing."""
    if processes == 1 or len(logs) < FEWEST * processes:
        return logs
    return _polish(logs, [[unit % processes for unit in range(len(logs))]], processes)[0]


def mean_of(each: Sequence[Processes | None], shares: Sequence[float]) -> Processes | None:
    """Of several cases that the same processes ran, so that what is particular to one is in all of them: by process,
    weighted. Where a case had fewer, their first. Cases of a single process have no part in it: beside others only
    those are whose data fill a device's memory, and what a process adds to so long a call is nothing."""
    known = [(one, share) for one, share in zip(each, shares, strict=True) if one is not None]
    if not known:
        return None
    in_all = range(min(one.count for one, _ in known))
    return Processes(
        tuple(math.fsum(share * one.of_a[i] for one, share in known) for i in in_all),
        tuple(math.fsum(share * one.of_b[i] for one, share in known) for i in in_all),
    )


def foreseen_half_width(null_logs: Sequence[float], processes: int) -> float:
    """What `half_width` will about be, as the null run shows it: neighbours in the ring differ by twice the variance of
    one process, about a centre that is nothing. 0.0 for a single process."""
    if processes == 1:
        return 0.0
    centres = [hodges_lehmann(null_logs[first::processes]) for first in range(processes)]
    return _half_width(_squares(centres) / (2 * processes), processes)


def _polish(
    logs: Sequence[float], sides: Sequence[Sequence[int]], processes: int
) -> tuple[list[float], list[tuple[float, ...]]]:
    """The logarithms without what the process that each is of on every side adds, which is the second; both about the
    centre of all. The first are stretched by what the fit took from their spread."""
    left = list(logs)
    adds = [[0.0] * processes for _ in sides]
    for _ in range(_SWEEPS if len(sides) > 1 else 1):
        for side, own in zip(sides, adds, strict=True):
            for process in range(processes):
                units = [unit for unit, of in enumerate(side) if of == process]
                centre = hodges_lehmann([left[unit] for unit in units])
                own[process] += centre
                for unit in units:
                    left[unit] -= centre
    middle = math.fsum(map(_mean, adds))
    about = [tuple(value - _mean(own) + middle for value in own) for own in adds]
    fitted = len(sides) * (processes - 1) + 1
    stretch = math.sqrt(len(left) / (len(left) - fitted)) if len(left) > fitted else 1.0
    return [stretch * value + middle for value in left], about


def _half_width(variance: float, processes: int) -> float:
    return _STUDENTS_T[processes] * math.sqrt(variance * 2 / processes)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    """Summed, of the distances from the mean."""
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)

"""What a paired comparison says: values only, no torch. Raw readings are kept; every figure is derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from harness.boards.board import GridName, RankBy, Spec
from harness.evaluation.record import Device, IsolationLevel, Protocol, Reason, Status
from harness.measure.comparison import Judgement, Unit, Verdict, judge, judge_all
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure, cost_of_no_op, median, median_interval

Readings = tuple[int, int, int, int]
"""Four readings of the supervisor's clock in ns, in the order taken: A B on one input, B A on the next."""


class Name(StrEnum):
    A = "A"
    B = "B"


@dataclass(frozen=True)
class Fault:
    """What ended a case: whose call, and how. `name` is None where the harness itself could not go on."""

    name: Name | None
    status: Status
    reason: Reason
    traceback: str = ""

    @property
    def whose(self) -> str:
        return "harness" if self.name is None else self.name.value


@dataclass(frozen=True)
class CaseComparison:
    """One benchmark case. `null` holds A against A in another process, `paired` A against B; `overhead_ns` are no-op
    calls of a worker without a submission, one before each call. Which of the `processes` of each version a unit is of
    follows from its place (`harness.measure.processes`)."""

    index: int
    spec: Spec
    null: tuple[Readings, ...] = ()
    paired: tuple[Readings, ...] = ()
    overhead_ns: tuple[int, ...] = ()
    processes: int = 1
    fault: Fault | None = None
    seconds: float = 0.0

    @property
    def null_units(self) -> list[Unit]:
        return units(self.null, self.overhead_ns)

    @property
    def units(self) -> list[Unit]:
        return units(self.paired, self.overhead_ns)

    @cached_property
    def judgement(self) -> Judgement | None:
        """None for a case that a fault ended."""
        return None if self.fault is not None else judge(self.units, self.null_units, self.processes)

    def figure(self, name: Name) -> Figure | None:
        """The median time of A's or B's calls in the paired run, with its 95 % interval; None where it is not
        positive."""
        times = [
            time
            for unit in self.units
            for time in ((unit.a1_ns, unit.a2_ns) if name is Name.A else (unit.b1_ns, unit.b2_ns))
        ]
        if not times or median(times) <= 0:
            return None
        return Figure(median(times), median_interval(times))


@dataclass(frozen=True)
class PairedComparison:
    """All cases, with what they were measured on."""

    leaderboard: str
    grid: GridName
    device: Device
    isolation: IsolationLevel
    ranking_by: RankBy
    seed: int
    log: str
    cases: tuple[CaseComparison, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    processes: int = 1
    """Of each version; a case for which memory or time does not suffice has fewer."""

    @property
    def of(self) -> RankClass:
        """What these times may be compared with."""
        device = self.device
        return RankClass(self.leaderboard, self.grid, device.kind, device.name, Protocol.SEALED, self.isolation)

    @cached_property
    def overall(self) -> Judgement | None:
        """The verdict on the score; None when some case has none."""
        judgements = [case.judgement for case in self.cases]
        known = [judgement for judgement in judgements if judgement is not None]
        if len(known) < len(judgements):
            return None
        return judge_all(known, self._weights())

    @property
    def failed(self) -> bool:
        return any(case.fault is not None for case in self.cases)

    @property
    def refused(self) -> bool:
        """Whether some case that was measured, or the score, got no verdict."""
        judgements = [*(case.judgement for case in self.cases), self.overall]
        return any(judgement is not None and judgement.verdict is None for judgement in judgements)

    @property
    def verdict(self) -> Verdict | None:
        return None if self.overall is None else self.overall.verdict

    def _weights(self) -> list[float]:
        """A geometric mean weighs logarithms alike; in a mean of times a case weighs as long as it takes."""
        if self.ranking_by is not RankBy.MEAN:
            return [1.0] * len(self.cases)
        figures = [case.figure(Name.A) for case in self.cases]
        return [figure.value_ns if figure is not None else 1.0 for figure in figures]


def units(readings: tuple[Readings, ...] | list[Readings], overhead_ns: tuple[int, ...] | list[int]) -> list[Unit]:
    """The units of raw readings, less what a no-op call costs."""
    overhead = cost_of_no_op(overhead_ns)
    return [
        Unit(a1_ns=a1 - overhead, b1_ns=b1 - overhead, b2_ns=b2 - overhead, a2_ns=a2 - overhead)
        for a1, b1, b2, a2 in readings
    ]

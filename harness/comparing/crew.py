"""The workers of a comparison: so many of A and so many of B, which live through all cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.comparing.contestants import Contestant
from harness.evaluation.session import open_sessions
from harness.measure.processes import null_pair, pair


@dataclass(frozen=True)
class Crew:
    """`processes` workers of A and as many of B; of A two at least, since the null run takes two."""

    a: Sequence[Contestant]
    b: Sequence[Contestant]
    processes: int

    @classmethod
    def of(cls, processes: int, contestant: Callable[[str, int], Contestant]) -> Crew:
        """`contestant(side, number)` makes each; no process starts before `start`."""
        a = [contestant("a", number) for number in range(max(processes, 2))]
        return cls(a, [contestant("b", number) for number in range(processes)], processes)

    @property
    def first(self) -> Contestant:
        return self.a[0]

    @property
    def others(self) -> list[Contestant]:
        return [*self.a[1:], *self.b]

    def pair(self, unit: int) -> tuple[Contestant, Contestant]:
        a, b = pair(unit, self.processes)
        return self.a[a], self.b[b]

    def null_pair(self, unit: int) -> tuple[Contestant, Contestant]:
        first, second = null_pair(unit, self.processes)
        return self.a[first], self.a[second]

    def halved(self) -> Crew:
        """The first half of the processes of each version, at least one."""
        processes = max(1, self.processes // 2)
        return Crew(self.a[: max(2, processes)], self.b[:processes], processes)

    def end_all_but(self, kept: Crew) -> None:
        for contestant in (*self.a[len(kept.a) :], *self.b[len(kept.b) :]):
            contestant.close()

    def close(self) -> None:
        for contestant in (*self.a, *self.b):
            contestant.close()


def start(contestants: Sequence[Contestant]) -> None:
    """Have a worker with the submission loaded for each. Raises Failed, and MachineError where workers don't come up.

    Those of one version start side by side: a CUDA context alone takes half a second."""
    for contestant in contestants:
        contestant.refuse_unloadable()
    missing = [contestant for contestant in contestants if not contestant.alive]
    for host, of_one in groupby(missing, key=lambda contestant: contestant.host):
        fresh = list(of_one)
        sessions = open_sessions(host, fresh[0].phase, len(fresh), cuda=fresh[0].cuda)
        for contestant, session in zip(fresh, sessions, strict=True):
            contestant.take(session)
    for contestant in contestants:
        contestant.load()

"""Who ranks where: pure functions over scores.

A score's own interval knows nothing of the noise between runs, so two scores within δ of each other share a rank.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from harness.boards.board import GridName
from harness.evaluation.record import IsolationLevel, Mode, Protocol, ReasonCode, Status
from harness.measure.noise import Noise
from harness.measure.statistics import Figure, Interval, median

ASSUMED_DELTA = {"cuda": 0.005, "cpu": 0.03}
"""Relative noise between runs, by device kind, for devices where it has not been calibrated."""


@dataclass(frozen=True)
class RankClass:
    """What must agree before two scores are ranked together."""

    leaderboard: str
    grid: GridName
    device_kind: str
    device: str
    protocol: Protocol
    isolation: IsolationLevel
    benchmarks: str = ""
    """Which benchmarks the scores are of (`harness.measure.scoring.benchmarks_digest`); empty where that is unknown."""
    noise: Noise | None = field(default=None, compare=False)
    """The noise between runs as it was calibrated; None where it was not, and is assumed."""

    @property
    def of_any_benchmarks(self) -> RankClass:
        """The class with its benchmarks left open: what a heading over a table says."""
        return replace(self, benchmarks="")

    @property
    def delta(self) -> float:
        """The relative difference below which two scores of this class count as equal.

        Published scores stand as the service that published them ranked them: by value.
        """
        if self.protocol is Protocol.HOSTED:
            return 0.0
        if self.noise is not None:
            return self.noise.delta
        return ASSUMED_DELTA.get(self.device_kind, max(ASSUMED_DELTA.values()))

    @property
    def noise_words(self) -> str:
        """Where δ comes from, e.g. `noise between runs, calibrated 2026-11-01 from 5 runs`."""
        if self.noise is None:
            return "assumed noise between runs"
        date = f"{self.noise.calibrated_at.astimezone():%Y-%m-%d}"
        return f"noise between runs, calibrated {date} from {self.noise.runs} runs"


@dataclass(frozen=True)
class Entry:
    """A score that takes part in a ranking. `runs` counts the runs of one source that it pools."""

    rank_class: RankClass
    user: str
    source_sha256: str
    submission_id: int
    evaluation_id: int
    file_name: str
    created_at: datetime
    score: Figure
    runs: int = 1


@dataclass(frozen=True)
class Rank:
    """A place in a ranking; `tied` when somebody else holds the same one."""

    number: int
    tied: bool = False

    def __str__(self) -> str:
        return f"{self.number}=" if self.tied else str(self.number)


def why_unranked(
    *,
    mode: Mode,
    protocol: Protocol,
    status: Status,
    interpreted: bool,
    isolation: IsolationLevel,
    rank_reason: ReasonCode | None,
    unisolated_allowed: bool,
) -> ReasonCode | Mode | Status | None:
    """None when an evaluation takes part in the ranking, else what keeps it out: its mode, its status or a reason.

    Of all these only the lack of isolation can be lifted, by the store's owner.
    """
    if mode is not Mode.LEADERBOARD:
        return mode
    if status is not Status.PASSED:
        return status
    if protocol is Protocol.HOSTED:
        return ReasonCode.IMPORTED
    if protocol is not Protocol.SEALED:
        return ReasonCode.UNSEALED_PROTOCOL
    if interpreted:
        return ReasonCode.INTERPRETED
    if rank_reason not in (None, ReasonCode.NOT_ISOLATED):
        return rank_reason
    if (isolation is IsolationLevel.NONE or rank_reason is ReasonCode.NOT_ISOLATED) and not unisolated_allowed:
        return ReasonCode.NOT_ISOLATED
    return None


K = TypeVar("K", bound=Hashable)


def pool_by_source(entries: Iterable[Entry]) -> list[Entry]:
    """One entry for each source of a user: the median of its runs' scores, and of their intervals' ends.

    So repeating a run gains nothing but certainty. The entry carries the ids of the latest run.
    """
    pooled = []
    for runs in _grouped(entries, lambda entry: (entry.rank_class, entry.user, entry.source_sha256)).values():
        latest = max(runs, key=lambda entry: entry.evaluation_id)
        if len(runs) == 1:
            pooled.append(latest)
            continue
        pooled.append(replace(latest, score=pool([run.score for run in runs]), runs=sum(run.runs for run in runs)))
    return pooled


def pool(scores: Sequence[Figure]) -> Figure:
    """The figure of several runs of one source; without an interval where a run has none."""
    intervals = [score.interval_ns for score in scores if score.interval_ns is not None]
    interval = None
    if len(intervals) == len(scores):
        interval = Interval(median([i.low for i in intervals]), median([i.high for i in intervals]))
    return Figure(median([score.value_ns for score in scores]), interval)


def best_per_user(entries: Iterable[Entry]) -> list[Entry]:
    """The fastest pooled source of each user in each class, fastest first."""
    groups = _grouped(pool_by_source(entries), lambda entry: (entry.rank_class, entry.user))
    return fastest_first(min(group, key=_speed) for group in groups.values())


def fastest_first(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=_speed)


def ranks(scores: Sequence[float], delta: float) -> list[Rank]:
    """The rank of each score, in the order given: 1 + the number of scores y with y · (1 + δ) < x.

    Being equal is not transitive: of three scores, each within δ of the next, the first and the last may differ. The
    rank counts only those that are surely faster, so nobody loses a place to noise.
    """
    ordered = sorted(scores)
    number_of: dict[float, int] = {}
    faster = 0
    for score in ordered:
        while ordered[faster] * (1 + delta) < score:
            faster += 1
        number_of[score] = 1 + faster
    numbers = [number_of[score] for score in scores]
    held: dict[int, int] = {}
    for number in numbers:
        held[number] = held.get(number, 0) + 1
    return [Rank(number, held[number] > 1) for number in numbers]


def rank_in(score: float, others: Sequence[float], delta: float) -> Rank:
    """The rank of one score among others that are sorted: the first of `ranks([score, *others], delta)`, in less time.

    Numbers only grow with the score, so whoever shares this one's is next to it.
    """

    def number(of: float) -> int:
        faster = bisect_left(others, True, key=lambda other: not other * (1 + delta) < of)
        return 1 + faster + (score * (1 + delta) < of)

    at = bisect_left(others, score)
    own = number(score)
    return Rank(own, any(number(other) == own for other in others[max(0, at - 1) : at + 1]))


def rank_among(entry: Entry, entries: Iterable[Entry]) -> Rank:
    """The rank that `entry` holds by itself: against the best of every *other* user in its class."""
    others = [
        other.score.value_ns
        for other in best_per_user(entries)
        if other.user != entry.user and other.rank_class == entry.rank_class
    ]
    return ranks([entry.score.value_ns, *others], entry.rank_class.delta)[0]


def _speed(entry: Entry) -> tuple[float, int]:
    return entry.score.value_ns, entry.evaluation_id


def _grouped(entries: Iterable[Entry], key: Callable[[Entry], K]) -> dict[K, list[Entry]]:
    groups: dict[K, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups

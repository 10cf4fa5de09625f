"""δ, the noise between runs: how far two scores of one kernel on one device may lie apart by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.boards.board import GridName
from harness.evaluation.record import Protocol
from harness.measure.statistics import students_t

LEAST_DELTA = 0.001
"""No two runs are told apart by less than 0.1 %, however alike the calibrating runs were."""
MOST_DELTA = 0.25
"""A larger δ says that the machine was busy, not how two kernels compare; it is not kept."""
FEWEST_RUNS = 3


@dataclass(frozen=True)
class Noise:
    """The relative difference below which two scores count as equal, and what it was calibrated from."""

    delta: float
    runs: int
    calibrated_at: datetime


@dataclass(frozen=True)
class NoiseKey:
    """What a calibration of the noise holds for."""

    device: str
    leaderboard: str
    grid: GridName
    protocol: Protocol


@dataclass(frozen=True)
class NoiseCalibration:
    """Scores in ns of repeated evaluations of one source on one device, one after the other."""

    key: NoiseKey
    device_kind: str
    scores_ns: tuple[float, ...]
    created_at: datetime

    @property
    def noise(self) -> Noise:
        return Noise(delta_of(self.scores_ns), len(self.scores_ns), self.created_at)


def coefficient_of_variation(scores: Sequence[float]) -> float:
    """The sample's standard deviation over its mean. Raises ValueError for fewer than two scores."""
    if len(scores) < 2:
        raise ValueError("a coefficient of variation needs two scores")
    mean = math.fsum(scores) / len(scores)
    variance = math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)
    return math.sqrt(variance) / mean


def delta_of(scores: Sequence[float]) -> float:
    """δ = t · √2 · s, at least 0.1 %: s is the coefficient of variation, t Student's at 97.5 % for their number.

    The difference of two runs has √2 times the standard deviation of one; two runs of one kernel then differ by more
    than δ one time in twenty. With t, few runs give a wider δ, as they should. Raises ValueError below 3 scores.
    """
    if len(scores) < FEWEST_RUNS:
        raise ValueError(f"the noise between runs needs {FEWEST_RUNS} scores, there are {len(scores)}")
    t = students_t(len(scores) - 1)
    return max(LEAST_DELTA, t * math.sqrt(2) * coefficient_of_variation(scores))

"""When a case has been sampled enough.

Looking after every sample and stopping at the first narrow interval would favour lucky runs, so the rule looks only at
fixed counts, and decides there whether the next one is worth its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.record import StopRule
from harness.measure.statistics import median, median_interval

LOOKS = (7, 15, 31, 63, 127)
"""Sample counts at which sampling may end; each about doubles the one before."""


@dataclass(frozen=True)
class StoppingRule:
    """`budget_s` is the wall time that a case's timed calls may take; the first 7 are taken whatever they cost."""

    budget_s: float
    target_relative_half_width: float = 0.01
    least: int = 15
    """A narrow interval ends the sampling from this count on; fewer samples are only for what is dear."""

    def decide(self, times_ns: Sequence[float], spent_s: float) -> StopRule | None:
        """Why to stop now, or None to go on. `times_ns` are the case's times so far, `spent_s` their wall time.

        Between looks it always says go on. At a look it stops when the interval's half-width is within the target
        (not before `least` calls), when the count is the largest, or when the next look would end beyond the budget at
        the pace so far.
        """
        count = len(times_ns)
        if count < LOOKS[-1] and count not in LOOKS:
            return None
        interval = median_interval(times_ns)
        middle = median(times_ns)
        narrow = interval is not None and interval.half_width <= self.target_relative_half_width * middle
        if narrow and middle > 0 and count >= self.least:
            return StopRule.PRECISE
        if count >= LOOKS[-1]:
            return StopRule.MOST
        following = LOOKS[LOOKS.index(count) + 1]
        if spent_s * following / count > self.budget_s:
            return StopRule.BUDGET
        return None

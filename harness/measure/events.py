"""Device events held against the supervisor's clock: a cross-check that never makes the score and never accuses."""

from __future__ import annotations

from harness.evaluation.record import Samples
from harness.measure.statistics import case_figure, median

TOLERANCE_NS, TOLERANCE = 2_000.0, 0.01
"""The two disagree by more than the larger of 2 µs (an empty pair of events reads 1.25 µs) and 1 % of the figure."""


def events_disagreement(samples: Samples | None) -> tuple[float, float] | None:
    """The median of the events' readings and the supervisor's figure, in ns, where they disagree, else None.

    A reading of 0 is one that the worker did not give. None too where there is no figure.
    """
    figure = case_figure(samples)
    told_ns = [events_ns for events_ns in samples.events_ns if events_ns > 0] if samples is not None else []
    if figure is None or not told_ns:
        return None
    events_ns = median(told_ns)
    if abs(events_ns - figure.value_ns) <= max(TOLERANCE_NS, TOLERANCE * figure.value_ns):
        return None
    return events_ns, figure.value_ns


def events_note(samples: Samples | None) -> str:
    """The remark for a case whose events disagree, or an empty string."""
    found = events_disagreement(samples)
    if found is None:
        return ""
    events_ns, figure_ns = found
    return (
        f"device events read {events_ns / 1e3:.3f} µs, the supervisor's clock {figure_ns / 1e3:.3f} µs, which counts: "
        "docs/trust.md"
    )

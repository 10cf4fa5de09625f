"""When device events are said to disagree with the supervisor; all numbers by hand."""

from __future__ import annotations

import pytest

from harness.evaluation.record import Samples
from harness.measure.events import events_disagreement, events_note


def samples(figure_ns: int, events_ns: tuple[int, ...]) -> Samples:
    """Seven calls of `figure_ns`, each read with the clock's own 8 µs."""
    return Samples((figure_ns + 8_000,) * 7, (8_000,) * 7, events_ns)


@pytest.mark.parametrize(
    ("figure_ns", "events_ns", "disagrees"),
    [
        (16_100, 17_100, False),
        (16_000, 18_000, False),  # 2 µs are allowed
        (16_000, 18_001, True),
        (16_000, 13_999, True),
        (16_000, 14_000, False),
        (200_000, 202_000, False),  # where 1 % is 2 µs
        (1_000_000, 1_010_000, False),  # 1 % is 10 µs
        (1_000_000, 1_010_001, True),
        (1_000_000, 989_999, True),
    ],
)
def test_the_larger_of_two_microseconds_and_a_percent(figure_ns: int, events_ns: int, disagrees: bool) -> None:
    found = events_disagreement(samples(figure_ns, (events_ns,) * 7))
    assert found == ((events_ns, figure_ns) if disagrees else None)


def test_the_medians_are_compared_and_missing_readings_left_out() -> None:
    assert events_disagreement(samples(50_000, (50_000, 50_000, 50_000, 50_000, 900, 900, 900))) is None
    assert events_disagreement(samples(50_000, (0, 0, 0, 0, 50_000, 50_000, 50_000))) is None
    assert events_disagreement(samples(50_000, (0, 0, 0, 0, 900, 900, 1_000))) == (900, 50_000)


def test_nothing_is_said_without_events_or_a_figure() -> None:
    assert events_disagreement(None) is None
    assert events_disagreement(samples(50_000, ())) is None
    assert events_disagreement(samples(50_000, (0,) * 7)) is None
    assert events_disagreement(samples(-1_000, (50_000,) * 7)) is None
    assert events_note(samples(50_000, ())) == ""


def test_the_note_gives_both_figures() -> None:
    note = events_note(samples(50_000, (44_500,) * 7))
    assert note.startswith("device events read 44.500 µs, the supervisor's clock 50.000 µs")

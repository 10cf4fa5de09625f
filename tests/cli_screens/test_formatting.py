from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.formatting import (
    ending,
    format_case,
    format_change,
    format_indices,
    format_moment,
    format_ratio,
    format_share,
    format_spread,
    format_time,
    printable,
    sparkline,
)
from harness.measure.statistics import Figure, Interval


def figure(value_ns: float, half_width_ns: float) -> Figure:
    return Figure(value_ns, Interval(value_ns - half_width_ns, value_ns + half_width_ns))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (figure(123_456.0, 610.0), "123.46 µs"),
        (figure(123_456.0, 61.0), "123.456 µs"),
        (figure(123_456.0, 6100.0), "123.5 µs"),
        (figure(123_456.0, 61_000.0), "123 µs"),
        (figure(123_456.0, 0.0), "123.456 µs"),
        (figure(2_578_000.0, 3_000.0), "2.5780 ms"),
        (figure(288e6, 1e6), "288.0 ms"),
        (figure(1.5e9, 1e7), "1.500 s"),
        (Figure(8_031.0, None), "8.03 µs"),
        (Figure(950.0, None), "950 ns"),
        (None, "–"),
    ],
)
def test_times_show_what_the_interval_supports(shown: Figure | None, expected: str) -> None:
    assert format_time(shown) == expected


def test_spread() -> None:
    assert format_spread(figure(100.0, 0.05)) == "± 0.05 %"
    assert format_spread(figure(100.0, 1.24)) == "± 1.2 %"
    assert format_spread(Figure(100.0, Interval(88.0, 131.0))) == "−12 +31 %"
    assert format_spread(Figure(100.0, None)) == ""
    assert format_spread(None) == ""


def test_change_ratio_and_share() -> None:
    assert [format_change(ratio) for ratio in (0.877, 1.0001, 1.05, 3.21)] == ["−12.3 %", "0.0 %", "+5.0 %", "3.21×"]
    assert format_ratio(0.877, Interval(0.865, 0.889)) == "0.877 ± 1.4 %"
    assert format_ratio(0.877, None) == "0.877"
    assert format_share(50.0, figure(80.0, 1.0)) == "62 %"
    assert format_share(1.0, figure(80.0, 1.0)) == "1.2 %"
    assert format_share(None, figure(80.0, 1.0)) == ""


def test_cases_are_shown_without_their_seed() -> None:
    assert format_case({"m": (1, 2), "kind": "x", "seed": 3}) == "m: [1, 2]; kind: x"
    assert format_case({"seed": 3}) == "seed: 3"
    assert format_case({"n": (4096,) * 8, "m": (1, 1), "k": (1, 1, 2)}) == "n: [4096 × 8]; m: [1, 1]; k: [1, 1, 2]"


def test_indices() -> None:
    assert format_indices([7, 0, 1, 2, 3]) == "0–3, 7"
    assert format_indices([5]) == "5"


def test_sparkline() -> None:
    assert sparkline([1.0, 2.0, 4.0]) == "▁▅█"
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([]) == ""


def test_moment() -> None:
    assert format_moment(datetime(2001, 7, 9, 12, tzinfo=UTC)) == "2001-07-09"
    assert ":" in format_moment(datetime.now(UTC))


@given(st.text())
def test_printable_text_can_not_move_the_cursor(text: str) -> None:
    shown = printable(text)
    assert not [character for character in shown if ord(character) < 32 and character not in "\n\t"]
    assert not [character for character in shown if 127 <= ord(character) < 160]


def test_printable_names_what_it_hides() -> None:
    assert printable("a\x1b[31mb\r\nc\td") == "a\\x1b[31mb\nc\td"


def test_ending() -> None:
    assert ending("1\n2\n3\n", 3) == "1\n2\n3"
    assert ending("1\n2\n3\n4\n", 2) == "… 2 lines before\n3\n4"

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import GridName
from harness.cli.formatting import (
    TOO_FEW,
    cells,
    ending,
    format_case,
    format_change,
    format_class,
    format_device,
    format_indices,
    format_moment,
    format_ratio,
    format_share,
    format_spread,
    format_time,
    printable,
    shortened,
    sparkline,
)
from harness.evaluation.record import IsolationLevel, Protocol
from harness.measure.ranking import RankClass
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
        (Figure(8_031.0, None), "8.0 µs"),
        (Figure(123_456.0, None), "120 µs"),
        (Figure(999_700.0, None), "1.0 ms"),
        (Figure(46e6, Interval(0.0, 128e6)), "46 ms"),
        (Figure(46e6, Interval(-22e6, 128e6)), "46 ms"),
        (Figure(46.4e6, Interval(5e6, 128e6)), "46 ms"),
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
    assert format_spread(None) == ""


@pytest.mark.parametrize("interval", [None, Interval(0.0, 250.0), Interval(-49.0, 279.0)])
def test_a_time_not_told_from_zero_has_no_percentages(interval: Interval | None) -> None:
    assert format_spread(Figure(100.0, interval)) == "too noisy"
    assert format_ratio(10.166, interval) == "10 too noisy"


def test_published_times_stand_as_they_were_published() -> None:
    assert format_time(Figure(8_994.0, None), Protocol.HOSTED) == "8.99 µs"
    assert format_spread(Figure(8_994.0, None), Protocol.HOSTED) == ""
    assert format_ratio(8.6449, None, Protocol.HOSTED) == "8.64"


def test_popcorns_one_sample_is_too_few() -> None:
    assert format_spread(Figure(8_994.0, None), Protocol.POPCORN) == TOO_FEW
    assert format_ratio(8.6449, None, Protocol.POPCORN) == f"8.6 {TOO_FEW}"


def test_change_ratio_and_share() -> None:
    assert [format_change(ratio) for ratio in (0.877, 1.0001, 1.05, 3.21, 14.5)] == [
        "−12.3 %",
        "0.0 %",
        "+5.0 %",
        "+221 %",
        "> +1000 %",
    ]
    assert format_change(0.988, unsure=True) == "~ −1.2 %"
    assert format_ratio(0.877, Interval(0.865, 0.889)) == "0.877 ± 1.4 %"
    assert format_ratio(10.166, Interval(2.0, 28.0)) == "10 −80 +175 %"
    assert format_ratio(0.877, None) == "0.88 too noisy"
    assert format_share(50.0, figure(80.0, 1.0)) == "62 %"
    assert format_share(1.0, figure(80.0, 1.0)) == "1.2 %"
    assert format_share(None, figure(80.0, 1.0)) == ""


def test_cases_are_shown_without_their_seed() -> None:
    assert format_case({"m": (1, 2), "kind": "x", "seed": 3}) == "m: [1, 2]; kind: x"
    assert format_case({"seed": 3}) == "–"
    assert format_case({"n": (4096,) * 8, "m": (1, 1), "k": (1, 1, 2)}) == "n: [4096 × 8]; m: [1, 1]; k: [1, 1, 2]"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Intel(R) Xeon(R) Processor @ 2.10GHz", "Intel Xeon @ 2.10GHz"),
        ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", "Intel Xeon Gold 6130 @ 2.10GHz"),
        ("AMD EPYC 9654 96-Core Processor", "AMD EPYC 9654 96-Core Processor"),
        ("NVIDIA H200", "NVIDIA H200"),
    ],
)
def test_devices(name: str, shown: str) -> None:
    assert format_device(name) == shown


def test_shortened_keeps_both_ends() -> None:
    assert shortened("attention_v12.py", 16) == "attention_v12.py"
    assert shortened("attention_v12.py", 12) == "atten…v12.py"
    assert len(shortened("a" * 100, 14)) == 14


def test_wide_characters_take_two_cells() -> None:
    assert cells("矩阵.py") == 7
    assert shortened("矩阵.py", 7) == "矩阵.py"
    # Two cells for the beginning, three for the end.
    assert shortened("矩阵乘法.py", 6) == "矩….py"
    assert [cells(shortened("矩阵乘法核函数第十二版", most)) for most in (4, 5, 9)] == [3, 5, 9]


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


def test_classes_of_other_benchmarks_are_told_apart() -> None:
    what = ("b", GridName.CPU, "cpu", "a processor", Protocol.SEALED, IsolationLevel.NAMESPACES)
    old, new = RankClass(*what, "0123456789abcdef"), RankClass(*what, "fedcba9876543210")
    other = RankClass("b", GridName.FULL, *what[2:], "0123456789abcdef")
    assert format_class(old, [old, other]) == "cpu grid · a processor · sealed-1 · namespaces"
    assert format_class(old, [old, new]) == "cpu grid · a processor · sealed-1 · namespaces · benchmarks 012345"

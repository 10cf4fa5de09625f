"""How figures, cases and foreign text are written on a screen. Full precision is for `--json`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime

from harness.boards.board import CaseValue, Spec, format_spec, format_value
from harness.evaluation.record import IsolationLevel, Protocol
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure, Interval
from harness.wording import counted

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_DIGITS_AS_PUBLISHED = 3
_DIGITS_UNRESOLVED = 2
_MOST_DIGITS = 6
_RATIO_DECIMALS = 3
_MOST_PERCENT = 1000
_MOST_OF_BOTH_SIDES = 10.0
TOO_NOISY, TOO_FEW = "too noisy", "too few samples"
"""What stands in an interval's place where it does not tell the time from zero, or where there is none."""
_NOT_IN_A_DEVICE_NAME = re.compile(r"\((?:R|TM|tm)\)|\b(?:Processor|CPU)\b(?=.* @ )")
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # what moves the cursor or recolours the screen
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text
    r"\u2028\u2029\ud800-\udfff]"  # what ends a line, and bytes that were no text
)
_BLOCKS = "▁▂▃▄▅▆▇█"


def without_interval(protocol: Protocol | None) -> str:
    """What stands in the place of the interval of a time or a score that has none, by its protocol: popcorn gives one
    sample a case, the mean; ours as many as an interval takes; what was published has none and claims none."""
    if protocol is Protocol.HOSTED:
        return ""
    return TOO_FEW if protocol is Protocol.POPCORN else TOO_NOISY


def format_time(figure: Figure | None, protocol: Protocol | None = None) -> str:
    """`12.3 µs`: as many digits as the interval supports; `–` without a figure.

    The last digit shown is that of the second digit of the interval's half-width. A time without an interval, or with
    one that reaches zero, has two digits; one that was published without an interval has three.
    """
    if figure is None:
        return "–"
    if figure.is_resolved and figure.interval_ns is not None:
        return format_ns(figure.value_ns, figure.interval_ns.half_width)
    return format_ns(figure.value_ns, digits=_digits(protocol))


def _digits(protocol: Protocol | None) -> int:
    return _DIGITS_AS_PUBLISHED if protocol is Protocol.HOSTED else _DIGITS_UNRESOLVED


def format_ns(value_ns: float, half_width_ns: float | None = None, *, digits: int = _DIGITS_AS_PUBLISHED) -> str:
    """A time in the unit that suits it. With a half-width, to its second digit; else to so many significant digits."""
    if half_width_ns is None and value_ns:
        value_ns = round(value_ns, digits - 1 - math.floor(math.log10(abs(value_ns))))
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if abs(value_ns) >= scale), (1.0, "ns"))
    value = value_ns / scale
    if half_width_ns is None:
        return f"{value:.{_decimals_of(value, digits)}f} {unit}"
    return f"{value:.{_decimals(value, half_width_ns / scale)}f} {unit}"


def format_spread(figure: Figure | None, protocol: Protocol | None = None) -> str:
    """`± 0.4 %`, half the interval's width over the value; `−12 +31 %` from 10 % on; what `without_interval` says where
    no interval tells it from zero. Empty without a figure."""
    if figure is None:
        return ""
    if not figure.is_resolved or figure.interval_ns is None:
        return without_interval(protocol)
    fine = figure.interval_ns.half_width < 0.001 * figure.value_ns
    return format_sides(figure.value_ns, figure.interval_ns, 2 if fine else 1)


def format_sides(value: float, interval: Interval, decimals: int) -> str:
    """`± 0.4 %`, half the interval's width over the value. From 10 % on the sides may differ much, so both are given:
    `−12 +31 %`; or `too noisy`, where it reaches eleven times the value."""
    percent = 100 * interval.half_width / value
    if percent < _MOST_OF_BOTH_SIDES:
        return f"± {percent:.{decimals}f} %"
    above = 100 * (interval.high / value - 1)
    if above >= _MOST_PERCENT:
        return "too noisy"
    return f"−{100 * (1 - interval.low / value):.0f} +{above:.0f} %"


def format_change(ratio: float, *, unsure: bool = False) -> str:
    """`−12.3 %` for a ratio of 0.877 (a time that became shorter), `+221 %` for 3.21; `~ −1.2 %` where `unsure`.

    From eleven times as long on it says no more than `> +1000 %`.
    """
    percent = 100 * (ratio - 1)
    text = f"{abs(percent):.1f} %" if abs(percent) < 99.95 else f"{abs(percent):.0f} %"
    if percent >= _MOST_PERCENT:
        text = f"> +{_MOST_PERCENT} %"
    elif text != "0.0 %":
        text = f"{'−' if percent < 0 else '+'}{text}"
    return f"~ {text}" if unsure else text


def format_ratio(ratio: float, interval: Interval | None, protocol: Protocol | None = None) -> str:
    """`0.877 ± 1.4 %`, half the interval's width over the ratio, to the digits that it supports, three decimals at
    most; `12 too noisy` without an interval that tells it from zero (see `without_interval`)."""
    figure = Figure(ratio, interval)
    if not figure.is_resolved or interval is None:
        digits = _digits(protocol)
        rounded = round(ratio, digits - 1 - math.floor(math.log10(ratio))) if ratio > 0 else ratio
        return f"{rounded:.{_decimals_of(rounded, digits)}f} {without_interval(protocol)}".rstrip()
    return f"{ratio:.{min(_RATIO_DECIMALS, _decimals(ratio, interval.half_width))}f} {format_spread(figure)}"


def format_share(part_ns: float | None, figure: Figure | None) -> str:
    """`63 %`: the speed of light over the time."""
    if part_ns is None or figure is None:
        return ""
    percent = 100 * part_ns / figure.value_ns
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def format_case(spec: Spec) -> str:
    """The case without its seed, and with `[4096 × 8]` for eight equal values; `–` where there is nothing else.

    The seed tells a reader nothing, and that of a ranked benchmark is not the one used: it is drawn afresh.
    """
    shown = {key: value for key, value in spec.items() if key != "seed"}
    return format_spec({key: _folded(value) for key, value in shown.items()}) or "–"


def format_moment(moment: datetime) -> str:
    """Local time: `Nov 30 02:14` in this year, `2024-11-30` in others."""
    local = moment.astimezone()
    return local.strftime("%b %d %H:%M") if _is_of_this_year(local) else format_day(local)


def format_day(moment: datetime) -> str:
    """Local time: `Nov 30` in this year, `2024-11-30` in others."""
    local = moment.astimezone()
    return local.strftime("%b %d" if _is_of_this_year(local) else "%Y-%m-%d")


def _is_of_this_year(local: datetime) -> bool:
    return local.year == datetime.now().astimezone().year


def format_class(rank_class: RankClass, among: Iterable[RankClass] = ()) -> str:
    """One line that says what a figure may be compared with. `among` are the classes that are shown beside it: of those
    that differ in their benchmarks alone, each names its own."""
    if rank_class.protocol is Protocol.HOSTED:
        return f"imported from a parquet file · {printable_name(rank_class.device)} · not measured here"
    isolation = "NOT ISOLATED" if rank_class.isolation is IsolationLevel.NONE else rank_class.isolation.value
    alike = [each for each in among if each.of_any_benchmarks == rank_class.of_any_benchmarks]
    benchmarks = f" · benchmarks {rank_class.benchmarks[:6] or 'unknown'}" if len(alike) > 1 else ""
    return (
        f"{rank_class.grid.value} grid · {format_device(rank_class.device)} · {rank_class.protocol.value} · {isolation}"
        f"{benchmarks}"
    )


def format_device(name: str) -> str:
    """A device's name without what tells nothing: `Intel Xeon @ 2.10GHz`, `NVIDIA H200`."""
    return " ".join(_NOT_IN_A_DEVICE_NAME.sub("", printable_name(name)).split())


def cells(text: str) -> int:
    """How many cells of a terminal a line of text takes: two for each wide character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, most: int) -> str:
    """The text, or its two ends about an ellipsis where it takes more than `most` cells of a terminal: versions of a
    file differ at the end, projects at the beginning."""
    if cells(text) <= most:
        return text
    head = (most - 1) // 2
    tail = most - 1 - head
    return f"{_first(text, head)}…{_first(text[::-1], tail)[::-1]}"


def _first(text: str, most: int) -> str:
    """As much of the beginning as has room in so many cells."""
    if text.isascii():
        return text[:most]
    end = taken = 0
    for end, character in enumerate(text):
        taken += cells(character)
        if taken > most:
            return text[:end]
    return text[: end + 1]


def format_indices(indices: Iterable[int]) -> str:
    """`0–3, 7`: runs of consecutive numbers folded."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)


def sparkline(values: list[float]) -> str:
    """One block a value, the tallest for the largest; on a log scale, since gains are ratios."""
    if not values:
        return ""
    logs = [math.log(value) for value in values]
    low, span = min(logs), max(logs) - min(logs)
    if span == 0:
        return _BLOCKS[0] * len(values)
    return "".join(_BLOCKS[round((value - low) / span * (len(_BLOCKS) - 1))] for value in logs)


def printable(text: str) -> str:
    """Text by somebody else without the characters that could move a terminal's cursor, recolour it, or show the text
    in another order than it has."""
    return _CONTROL.sub(lambda match: _spelled_out(ord(match.group())), text.replace("\r\n", "\n"))


def printable_name(text: str) -> str:
    """The same for a name, which is on one line whatever it holds."""
    return printable(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def _spelled_out(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name or an argument, as Python has it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def ending(text: str, lines: int) -> str:
    """The last lines of a text, with a word on how many come before."""
    every = printable(text).rstrip().splitlines()
    if len(every) <= lines:
        return "\n".join(every)
    before = len(every) - lines
    return "\n".join([f"… {counted(before, 'line')} before", *every[-lines:]])


def _folded(value: CaseValue) -> CaseValue:
    if isinstance(value, tuple) and len(value) > 2 and all(item == value[0] for item in value):
        return f"[{format_value(value[0])} × {len(value)}]"
    return value


def _decimals(value: float, half_width: float) -> int:
    """So many that the last one is the second digit of the half-width."""
    most = _decimals_of(value, _MOST_DIGITS)
    return most if half_width <= 0 else max(0, min(most, 1 - math.floor(math.log10(half_width))))


def _decimals_of(value: float, digits: int) -> int:
    leading = math.floor(math.log10(abs(value))) if value else 0
    return max(0, digits - 1 - leading)

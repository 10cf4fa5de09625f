"""How figures, cases and foreign text are written on a screen. Full precision is for `--json`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime

from harness.boards.board import CaseValue, Spec, format_spec, format_value
from harness.evaluation.record import Protocol
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure, Interval

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_DIGITS_WITHOUT_INTERVAL = 3
_MOST_DIGITS = 6
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BLOCKS = "▁▂▃▄▅▆▇█"


def format_time(figure: Figure | None) -> str:
    """`12.3 µs`: as many digits as the interval supports, three where there is none; `–` without a figure.

    The last digit shown is that of the second digit of the interval's half-width.
    """
    if figure is None:
        return "–"
    half_width_ns = figure.interval_ns.half_width if figure.interval_ns else None
    return format_ns(figure.value_ns, half_width_ns)


def format_ns(value_ns: float, half_width_ns: float | None = None) -> str:
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if abs(value_ns) >= scale), (1.0, "ns"))
    value = value_ns / scale
    return f"{value:.{_decimals(value, None if half_width_ns is None else half_width_ns / scale)}f} {unit}"


def format_spread(figure: Figure | None) -> str:
    """`± 0.4 %`, half the interval's width over the value; empty without an interval.

    From 10 % on the sides may differ much, so both are given: `−12 +31 %`.
    """
    if figure is None or figure.interval_ns is None or figure.relative_half_width is None:
        return ""
    percent = 100 * figure.relative_half_width
    if percent < 10:
        return f"± {percent:.2f} %" if percent < 0.1 else f"± {percent:.1f} %"
    below = 100 * (1 - figure.interval_ns.low / figure.value_ns)
    above = 100 * (figure.interval_ns.high / figure.value_ns - 1)
    return f"−{below:.0f} +{above:.0f} %"


def format_change(ratio: float) -> str:
    """`−12.3 %` for a ratio of 0.877 (a time that became shorter); `3.2×` from twice as long on."""
    if ratio >= 2:
        return f"{ratio:.3g}×"
    percent = 100 * (ratio - 1)
    text = f"{abs(percent):.1f} %"
    return text if text == "0.0 %" else f"{'−' if percent < 0 else '+'}{text}"


def format_ratio(ratio: float, interval: Interval | None) -> str:
    """`0.877 ± 1.4 %`, half the interval's width over the ratio."""
    return f"{ratio:.3f} {format_spread(Figure(ratio, interval))}".rstrip()


def format_share(part_ns: float | None, figure: Figure | None) -> str:
    """`63 %`: the speed of light over the time."""
    if part_ns is None or figure is None:
        return ""
    percent = 100 * part_ns / figure.value_ns
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def format_case(spec: Spec) -> str:
    """The case without its seed, which tells a reader nothing, and with `[4096 × 8]` for eight equal values."""
    shown = {key: value for key, value in spec.items() if key != "seed"} or spec
    return format_spec({key: _folded(value) for key, value in shown.items()})


def format_moment(moment: datetime) -> str:
    """Local time: `Nov 30 02:14` in this year, `2024-11-30` in others."""
    local = moment.astimezone()
    return local.strftime("%b %d %H:%M" if local.year == datetime.now().astimezone().year else "%Y-%m-%d")


def format_class(rank_class: RankClass) -> str:
    """One line that says what a figure may be compared with."""
    if rank_class.protocol is Protocol.HOSTED:
        return f"imported · {printable(rank_class.device)} · as published by the hosted service, not measured here"
    return (
        f"{rank_class.grid.value} grid · {rank_class.device_kind} {printable(rank_class.device)} · "
        f"protocol {rank_class.protocol.value} · isolation {rank_class.isolation.value}"
    )


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
    """Text by somebody else without the control characters that could move a terminal's cursor or recolour it."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text.replace("\r\n", "\n"))


def ending(text: str, lines: int) -> str:
    """The last lines of a text, with a word on how many come before."""
    every = printable(text).rstrip().splitlines()
    if len(every) <= lines:
        return "\n".join(every)
    return "\n".join([f"… {len(every) - lines} lines before", *every[-lines:]])


def _folded(value: CaseValue) -> CaseValue:
    if isinstance(value, tuple) and len(value) > 2 and all(item == value[0] for item in value):
        return f"[{format_value(value[0])} × {len(value)}]"
    return value


def _decimals(value: float, half_width: float | None) -> int:
    leading = math.floor(math.log10(abs(value))) if value else 0
    wanted = _DIGITS_WITHOUT_INTERVAL - 1 - leading
    if half_width is not None:
        most = _MOST_DIGITS - 1 - leading
        wanted = most if half_width <= 0 else min(most, 1 - math.floor(math.log10(half_width)))
    return max(0, wanted)

"""What a line may hold, inside of its JSON as well: one place, so that whatever goes in can be shown and exported.

`check_values` looks at every value of a line, whatever it means; `check_kind` at those that a table keeps as JSON
text, by their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from harness.transfer.errors import LONGEST_NS, SHORTEST_NS, RowError, check_characters

MOST_DEEP = 40
"""How deep lists and objects may lie in one another; what harness writes stays below 15."""
_LARGEST = 2**63


def check_values(document: object) -> None:
    """Raise RowError for what strict JSON lacks (NaN, infinities, halves of characters), for a number that no float
    holds, and for what is nested too deeply; the text says where in the line it is."""
    _check(document, "", 0)


def check_kind(name: str, value: Any, what: str) -> None:
    """Raise RowError unless `value`, an object or a list that passed `check_values`, is what `name` stands for."""
    of_kind, words = _KINDS[name]
    if of_kind is _is_time_ns and _are_integers(value):
        return  # most of what there is
    values = value.values() if isinstance(value, dict) else value
    if not all(map(of_kind, values)):
        raise RowError(f"'{name}' of {what} holds something else than {words}")


def _check(value: Any, where: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        check_characters(value, where or "the line")
    elif kind is float or kind is int:
        if not abs(value) <= sys.float_info.max:
            raise RowError(f"{where or 'the line'} is no finite number of 64 bits")
    elif kind is dict:
        _check_depth(depth)
        for name, inner in value.items():
            if not name.isascii():
                check_characters(name, f"a name in {where or 'the line'}")
            if not _is_plain(inner):
                _check(inner, f"{where}.{name[:40]}" if where else name[:40], depth + 1)
    elif kind is list:
        _check_depth(depth)
        if _are_integers(value):
            return  # samples: most of what there is
        for number, inner in enumerate(value):
            if not _is_plain(inner):
                _check(inner, f"{where}[{number}]", depth + 1)


def _is_plain(value: Any) -> bool:
    """Whether nothing can be wrong with a value, as with most; no text is made of where it is."""
    kind = type(value)
    return (
        (kind is str and value.isascii())
        or (kind is int and -_LARGEST <= value <= _LARGEST)
        or value is None
        or kind is bool
    )


def _are_integers(values: list[Any]) -> bool:
    """Whether these are integers of 64 bits, and some; at the speed of built-in functions."""
    return set(map(type, values)) == {int} and min(values) >= -_LARGEST and max(values) <= _LARGEST


def _check_depth(depth: int) -> None:
    if depth == MOST_DEEP:
        raise RowError("it is nested too deeply")


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time_ns(value: Any) -> bool:
    return is_number(value) and (value == 0 or SHORTEST_NS <= abs(value) <= LONGEST_NS)


def _is_text_or_number(value: object) -> bool:
    return isinstance(value, str | int | float)


def _is_case_value(value: object) -> bool:
    return all(map(_is_case_value, value)) if isinstance(value, list) else not isinstance(value, dict)


def _is_moderate(value: Any) -> bool:
    """No number in it overflows when a screen multiplies it."""
    if isinstance(value, dict | list):
        return all(map(_is_moderate, value.values() if isinstance(value, dict) else value))
    return not is_number(value) or abs(value) <= _LARGEST


_READINGS: dict[str, Callable[[Any], bool]] = {
    "throttling": lambda value: isinstance(value, list) and all(map(is_text, value)),
    "other_processes": lambda value: isinstance(value, list) and all(map(is_number, value)),
    "governor": is_text,
    **dict.fromkeys(
        ("sm_clock_mhz", "sm_clock_max_mhz", "memory_clock_mhz", "temperature_c", "power_w", "power_limit_w",
         "throttled_power_ns", "throttled_thermal_ns", "other_process_count", "memory_used_bytes", "load_1min",
         "cores", "clock_mhz"),
        lambda value: is_number(value) and _is_moderate(value),
    ),
}  # fmt: skip
"""What `harness.evaluation.state` reads; of what another version reads, nothing is asked."""


def _is_reading(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(name not in _READINGS or _READINGS[name](inner) for name, inner in value.items())
        and ("load_1min" not in value or "cores" in value)  # which say together how busy it is
    )


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "device_details": (_is_text_or_number, "texts and numbers by name"),
    "versions": (is_text, "texts by name"),
    "phases_s": (is_number, "numbers by name"),
    "state": (_is_reading, "readings of a device by name"),
    "spec": (_is_case_value, "a case's values by name"),
    "notes": (is_text, "texts"),
    "report": (_is_moderate, "numbers of 64 bits"),
    **dict.fromkeys(
        ("wall_ns", "overhead_ns", "events_ns"), (_is_time_ns, "numbers of nanoseconds (allowed: 0, 0.001 to 2⁶³)")
    ),
}

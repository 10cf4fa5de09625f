"""The records as JSON and back: `to_dict` and `from_dict`, inverse of one another."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from harness.compiling.record import Compilation

T = TypeVar("T")


class RecordError(ValueError):
    """What should have been a record is none; the text says where."""


def to_dict(record: Any) -> Any:
    """A record as plain JSON: dataclasses as objects, tuples as lists, enums as their values."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: to_dict(getattr(record, field.name)) for field in dataclasses.fields(record)}
    if isinstance(record, StrEnum):
        return record.value
    if isinstance(record, Mapping):
        return {str(key): to_dict(value) for key, value in record.items()}
    if isinstance(record, tuple | list):
        return [to_dict(each) for each in record]
    return record


def compilation_from_dict(raw: Any) -> Compilation:
    """Inverse of `to_dict`. Raises RecordError for anything that is no compilation."""
    return from_dict(Compilation, raw)


def from_dict(kind: type[T], raw: Any) -> T:
    """A record of that type from its JSON. Unknown keys are errors, missing ones must have defaults."""
    made: T = _read(kind, raw, kind.__name__)
    return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, localns={"CaseValue": Any})  # which names itself


def _read(kind: Any, raw: Any, where: str) -> Any:
    if kind is Any:
        return _tupled(raw)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_dataclass(kind, raw, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if raw is None and type(None) in arguments:
            return None
        inner = [each for each in arguments if each is not type(None)]
        return _read(inner[0], raw, where) if len(inner) == 1 else _tupled(raw)  # several: a case's value
    if origin is tuple:
        if not isinstance(raw, list | tuple):
            raise RecordError(f"{where} is no list")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_read(arguments[0], each, f"{where}.{i}") for i, each in enumerate(raw))
        if len(raw) != len(arguments):
            raise RecordError(f"{where} has {len(raw)} items, not {len(arguments)}")
        return tuple(_read(each, item, where) for each, item in zip(arguments, raw, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(raw, Mapping):
            raise RecordError(f"{where} is no object")
        return {str(key): _read(arguments[1], value, f"{where}.{key}") for key, value in raw.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        try:
            return kind(raw)
        except ValueError as error:
            raise RecordError(f"{where}: {error}") from error
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if not isinstance(kind, type) or not isinstance(raw, kind) or (kind is int and isinstance(raw, bool)):
        raise RecordError(f"{where} is {type(raw).__name__}, not {getattr(kind, '__name__', kind)}")
    return raw


def _tupled(raw: Any) -> Any:
    return tuple(_tupled(each) for each in raw) if isinstance(raw, list) else raw


def _read_dataclass(kind: type, raw: Any, where: str) -> Any:
    if not isinstance(raw, Mapping):
        raise RecordError(f"{where} is no object")
    hints = _hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    unknown = set(raw) - names
    if unknown:
        raise RecordError(f"{where} has unknown keys: {', '.join(sorted(map(str, unknown)))}")
    try:
        return kind(**{name: _read(hints[name], value, f"{where}.{name}") for name, value in raw.items()})
    except TypeError as error:
        raise RecordError(f"{where}: {error}") from error

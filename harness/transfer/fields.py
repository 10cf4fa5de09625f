"""The objects of a file of JSON lines, whose fields are taken out by name and kind."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from harness.store import codec
from harness.transfer.documents import check_kind, check_values
from harness.transfer.errors import RowError, name_of, text_of

_YEARS = range(2, 9999)
"""In every time zone these are years of the calendar."""


def dumps(document: object) -> str:
    """The text of a line, without its end."""
    text = _encode(document)
    try:
        text.encode()
    except UnicodeEncodeError:  # a remark that quotes a file's name, which need not be text
        return _encode(_whole_characters(document))
    return text


def _whole_characters(value: Any) -> Any:
    """The same with every half of a character spelled out."""
    if isinstance(value, dict):
        return {codec.storable_text(name): _whole_characters(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_whole_characters(inner) for inner in value]
    return codec.storable_text(value) if isinstance(value, str) else value


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def in_ascii(line: str) -> str:
    """The same line with escapes for all that is not ASCII."""
    return line if line.isascii() else json.dumps(json.loads(line), separators=(",", ":"))


def fields_of(row: Mapping[str, Any], left_out: Collection[str], json_names: Collection[str]) -> dict[str, Any]:
    """A row of a table as a line has it: what the table keeps as JSON text is JSON, and all of it strict."""
    fields = {name: _strict(value) for name, value in row.items() if name not in left_out}
    as_text = [name for name in fields if name in json_names and fields[name] is not None]
    return fields | {name: _decode(fields[name]) for name in as_text}


_AS_TEXT = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
_decode = json.JSONDecoder(parse_constant=_AS_TEXT.__getitem__).decode
"""A board's case may hold what strict JSON lacks."""


def _strict(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def document_of(line: str | None) -> Fields:
    """The object of a line; None is a line that is too long. Raises RowError for a line that is something else, or
    holds values that `documents.check_values` refuses."""
    if line is None:
        raise RowError("it is too long (allowed: 64 MiB)")
    try:
        document = json.loads(line)
        check_values(document)
        return Fields(document, "the line")
    except ValueError as error:
        where = f": {error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise RowError(f"it is not JSON{where}") from None
    except RecursionError:
        raise RowError("it is nested too deeply") from None


class Fields:
    """An object of the file, whose fields are taken out by name and kind."""

    def __init__(self, document: object, what: str) -> None:
        if not isinstance(document, dict):
            raise RowError(f"{what} is not an object")
        self.document = document
        self._what = what

    def get(self, name: str, *kinds: type) -> Any:
        if name not in self.document:
            raise RowError(f"{self._what} has no '{name}'")
        value = self.document[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise RowError(f"'{name}' of {self._what} is {_word(value)}, not {' or '.join(map(_name, kinds))}")
        return value

    def optional(self, name: str, *kinds: type) -> Any:
        return None if self.document.get(name) is None else self.get(name, *kinds)

    def text(self, name: str, *, empty: bool = False) -> str:
        return text_of(self.get(name, str), f"'{name}' of {self._what}", empty=empty)

    def name(self, name: str, *, empty: bool = False) -> str:
        return name_of(self.get(name, str), f"'{name}' of {self._what}", empty=empty)

    def json(self, name: str, kind: type) -> Any:
        """An object or a list that a table keeps as JSON text: of what `documents.check_kind` says."""
        value = self.get(name, kind)
        check_kind(name, value, self._what)
        return value

    def time(self, name: str) -> str:
        text = self.get(name, str)
        try:
            moment = codec.time_of(text)
            assert moment is not None
            if moment.tzinfo is None:
                raise RowError(f"'{name}' of {self._what} has no time zone: {text}")
            if moment.year not in _YEARS:
                raise RowError(f"'{name}' of {self._what} is {text[:40]} (allowed: the years 2 to 9998)")
            return codec.time_text(moment)
        except (ValueError, OverflowError):
            raise RowError(f"'{name}' of {self._what} is no time: {text[:40]!r}") from None


def _word(value: object) -> str:
    return "null" if value is None else _name(type(value))


def _name(kind: type) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "true or false"}.get(kind, "a number")

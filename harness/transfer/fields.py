"""The objects of a file of JSON lines, whose fields are taken out by name and kind."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from harness.store import codec
from harness.transfer.errors import RowError, text_of


def dumps(document: object) -> str:
    """The text of a line, without its end."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace").decode()


def fields_of(row: Mapping[str, Any], left_out: Collection[str], json_names: Collection[str]) -> dict[str, Any]:
    """A row of a table as a line has it: what the table keeps as JSON text is JSON."""
    fields = {name: value for name, value in row.items() if name not in left_out}
    as_text = [name for name in fields if name in json_names and fields[name] is not None]
    return fields | {name: json.loads(fields[name]) for name in as_text}


def document_of(line: str | None) -> Fields:
    """The object of a line. Raises RowError for a line that is something else, and None, one that is too long."""
    if line is None:
        raise RowError("it is too long (allowed: 64 MiB)")
    try:
        return Fields(json.loads(line), "the line")
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

    def time(self, name: str) -> str:
        text = self.get(name, str)
        try:
            moment = codec.time_of(text)
            assert moment is not None
            if moment.tzinfo is None:
                raise RowError(f"'{name}' of {self._what} has no time zone: {text}")
            return codec.time_text(moment)
        except (ValueError, OverflowError):
            raise RowError(f"'{name}' of {self._what} is no time: {text[:40]!r}") from None


def _word(value: object) -> str:
    return "null" if value is None else _name(type(value))


def _name(kind: type) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "true or false"}.get(kind, "a number")

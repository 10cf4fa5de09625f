"""What is wrong with a file that is read, or with one row of it; the rows around that go in."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import RequestError


@dataclass(frozen=True)
class BadRow:
    """`number` counts rows, or lines, from 1."""

    number: int
    what: str


class RowError(Exception):
    """The text says what is wrong with the row."""


class DamagedFile(RequestError):
    """The rest of a file can't be read; what came before goes in."""


def text_of(value: object, name: str, *, empty: bool = False) -> str:
    """A string that every database holds. Raises RowError."""
    if not isinstance(value, str):
        raise RowError(f"{name} is {_kind(value)}, not text")
    if not value and not empty:
        raise RowError(f"{name} is empty")
    if "\x00" in value:
        raise RowError(f"{name} holds a NUL character")
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RowError(f"{name} holds half a character (a lone surrogate) at {error.start}") from None
    return value


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"

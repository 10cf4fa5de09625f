"""What is wrong with a file that is read, or with one row of it; the rows around that go in."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from harness.errors import RequestError
from harness.store.rows import LONGEST_NAME_BYTES

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True)
class BadRow:
    """`number` counts rows, or lines, from 1; `submission_id` is the row's own, where it has one."""

    number: int
    what: str
    submission_id: int | None = None


class RowError(Exception):
    """The text says what is wrong with the row."""


class DamagedFile(RequestError):
    """The rest of a file can't be read; what came before goes in."""


SHORTEST_NS, LONGEST_NS = 1e-3, 2.0**63
"""Of a time: so that no mean, ratio or product of times leaves the range of a float."""


def text_of(value: object, name: str, *, empty: bool = False) -> str:
    """A string that every database holds. Raises RowError."""
    if not isinstance(value, str):
        raise RowError(f"{name} is {_kind(value)}, not text")
    if not value and not empty:
        raise RowError(f"{name} is empty")
    if "\x00" in value:
        raise RowError(f"{name} holds a NUL character")
    check_characters(value, name)
    return value


def name_of(value: object, name: str, *, empty: bool = False) -> str:
    """A string that every database finds rows by. Raises RowError."""
    text = text_of(value, name, empty=empty)
    if len(text) * 4 > LONGEST_NAME_BYTES and len(text.encode()) > LONGEST_NAME_BYTES:
        raise RowError(f"{name} has {len(text.encode())} bytes (allowed: {LONGEST_NAME_BYTES})")
    return text


def word_of(value: object, name: str, words: type[_Word]) -> _Word:
    """One of the words that an enumeration has. Raises RowError, which tells them all."""
    if isinstance(value, str):
        with suppress(ValueError):
            return words(value)
    raise not_allowed(value, name, words)


def not_allowed(value: object, name: str, words: Iterable[str]) -> RowError:
    """Of a value that is none of the words that are."""
    told = repr(value[:40]) if isinstance(value, str) else _kind(value)
    return RowError(f"{name} is {told} (allowed: {', '.join(words)})")


def check_characters(text: str, name: str) -> None:
    """Raise RowError for what is no Unicode text."""
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RowError(f"{name} holds half a character (a lone surrogate) at {error.start}") from None


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"

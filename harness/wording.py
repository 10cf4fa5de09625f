"""How a count and its noun are written, on every screen and in every message."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 case`, `3 cases`, `0 cases`; `plural` for a noun that does not just take an s."""
    return f"{count:,} {noun_for(count, noun, plural)}"


def more_words(count: int, what: str, plural: str = "") -> str:
    """What a table leaves out below its last row: `… 3 older; --limit 0 shows them`; with a `plural` for a noun."""
    return f"… {counted(count, what, plural or what)}; --limit 0 shows {noun_for(count, 'it', 'them')}"


def noun_for(count: int, noun: str, plural: str = "") -> str:
    """The noun alone, where the count is not written before it."""
    return noun if count == 1 else plural or f"{noun}s"

"""The difference of two source texts, as lines to show."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

CONTEXT_LINES = 3
SIMILAR = 0.5
"""From this share of equal characters on, a removed and an added line count as one line that changed."""
MOST_PAIRED = 200
"""Blocks of more lines than this are shown without word-level marks: pairing them would take longer than reading."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")

Span = tuple[int, int]
"""Characters `start` to `stop`, the last not included."""


class LineKind(StrEnum):
    SAME = " "
    REMOVED = "-"
    ADDED = "+"
    FOLD = "⋯"


@dataclass(frozen=True)
class DiffLine:
    """A line of either text, or a fold that stands for a run of unchanged ones. Line numbers count from 1.

    `changed` are the words that differ from the line on the other side that this one is a change of; empty for a line
    that has none.
    """

    kind: LineKind
    text: str
    old_line: int | None = None
    new_line: int | None = None
    changed: tuple[Span, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value} {self.text}" if self.kind is LineKind.FOLD else f"{self.kind.value}{self.text}"


def code_diff(old: str, new: str) -> list[DiffLine]:
    """The lines of a unified diff with three lines of context, unchanged runs folded; empty for equal texts.

    A run is folded only where the fold is shorter than what it hides.
    """
    old_lines, new_lines = old.splitlines(), new.splitlines()
    if old_lines == new_lines:
        return []
    lines: list[DiffLine] = []
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            same = [DiffLine(LineKind.SAME, old_lines[i1 + n], i1 + n + 1, j1 + n + 1) for n in range(i2 - i1)]
            lines += _folded(same, is_first=i1 == 0 and j1 == 0, is_last=i2 == len(old_lines) and j2 == len(new_lines))
        else:
            removed = [DiffLine(LineKind.REMOVED, old_lines[i], i + 1, None) for i in range(i1, i2)]
            added = [DiffLine(LineKind.ADDED, new_lines[j], None, j + 1) for j in range(j1, j2)]
            lines += [line for side in _with_words(removed, added) for line in side]
    return lines


def _folded(same: list[DiffLine], *, is_first: bool, is_last: bool) -> list[DiffLine]:
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    hidden = len(same) - head - tail
    if hidden < 2:
        return same
    return [*same[:head], DiffLine(LineKind.FOLD, f"{hidden} unchanged lines"), *same[len(same) - tail :]]


def _with_words(removed: Sequence[DiffLine], added: Sequence[DiffLine]) -> tuple[list[DiffLine], list[DiffLine]]:
    """Both sides of a changed block, the lines that are changes of each other marked word by word.

    Pairs keep the order of both texts: each added line takes the first similar removed line after the last pair.
    """
    old, new = list(removed), list(added)
    if len(old) + len(new) > MOST_PAIRED:
        return old, new
    start = 0
    for position, line in enumerate(new):
        for candidate in range(start, len(old)):
            if _similar(old[candidate].text, line.text):
                before, after = changed_words(old[candidate].text, line.text)
                old[candidate] = replace(old[candidate], changed=before)
                new[position] = replace(line, changed=after)
                start = candidate + 1
                break
    return old, new


def _similar(old: str, new: str) -> bool:
    matcher = difflib.SequenceMatcher(None, old.strip(), new.strip(), autojunk=False)
    return matcher.real_quick_ratio() >= SIMILAR and matcher.quick_ratio() >= SIMILAR and matcher.ratio() >= SIMILAR


def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Where two lines differ, in whole words, on either side."""
    old_words, new_words = _WORDS.findall(old), _WORDS.findall(new)
    old_spans: list[Span] = []
    new_spans: list[Span] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for spans, words, first, last in ((old_spans, old_words, i1, i2), (new_spans, new_words, j1, j2)):
            if first < last:
                start = sum(map(len, words[:first]))
                spans.append((start, start + sum(map(len, words[first:last]))))
    return tuple(old_spans), tuple(new_spans)

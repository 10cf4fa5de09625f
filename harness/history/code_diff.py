"""The difference of two source texts, as lines to show."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum

CONTEXT_LINES = 3


class LineKind(StrEnum):
    SAME = " "
    REMOVED = "-"
    ADDED = "+"
    FOLD = "⋯"


@dataclass(frozen=True)
class DiffLine:
    """A line of either text, or a fold that stands for a run of unchanged ones. Line numbers count from 1."""

    kind: LineKind
    text: str
    old_line: int | None = None
    new_line: int | None = None

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
            lines += [DiffLine(LineKind.REMOVED, old_lines[i], i + 1, None) for i in range(i1, i2)]
            lines += [DiffLine(LineKind.ADDED, new_lines[j], None, j + 1) for j in range(j1, j2)]
    return lines


def _folded(same: list[DiffLine], *, is_first: bool, is_last: bool) -> list[DiffLine]:
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    hidden = len(same) - head - tail
    if hidden < 2:
        return same
    return [*same[:head], DiffLine(LineKind.FOLD, f"{hidden} unchanged lines"), *same[len(same) - tail :]]

"""Changed techniques as rows to show: what was, what is, each with its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.techniques import Finding, State, Technique, TechniqueChange
from harness.techniques.finding import WORDS

LINES_SHOWN = 3
CONDITION_SHOWN = 60


@dataclass(frozen=True)
class TechniqueRow:
    """One technique, or one named tile: what the old and the new source have of it; None for nothing."""

    name: str
    old: Finding | None
    new: Finding | None


def technique_rows(changes: Sequence[TechniqueChange]) -> list[TechniqueRow]:
    """A row for each change; what is lost and gained under one name is one row."""
    rows = []
    for change in changes:
        lost = list(change.lost)
        before: dict[int, Finding] = {}
        # What kept its value and changed its condition is paired first, then the rest in order.
        for same_value in (True, False):
            for position, gained in enumerate(change.gained):
                if position not in before and (found := _counterpart(gained, lost, same_value)) is not None:
                    lost.remove(found)
                    before[position] = found
        rows += [
            TechniqueRow(technique_name(new), before.get(position), new) for position, new in enumerate(change.gained)
        ]
        rows += [TechniqueRow(technique_name(finding), finding, None) for finding in lost]
    return rows


def _counterpart(gained: Finding, lost: Sequence[Finding], same_value: bool) -> Finding | None:
    return next(
        (
            f
            for f in lost
            if technique_name(f) == technique_name(gained) and (f.value == gained.value or not same_value)
        ),
        None,
    )


def value_words(finding: Finding | None, *, with_lines: bool = True) -> str:
    """`8 if n > 64 (line 12)`; `yes (lines 3, 9, 14, …)` for a technique without a value; `–` for nothing."""
    if finding is None:
        return "–"
    value = finding.value
    if finding.technique is Technique.TILE_SIZE:
        value = value.partition("=")[2]
    text = value or ("yes" if finding.state is State.ENABLED else "")
    if finding.state is State.DECLARED:
        text = f"{text} declared".strip()
    if finding.when:
        text += f" if {shortened(finding.when)}"
    if with_lines:
        text += f" ({line_words(finding.lines)})"
    return text


def line_words(lines: Sequence[int]) -> str:
    shown = ", ".join(map(str, lines[:LINES_SHOWN])) + (", …" if len(lines) > LINES_SHOWN else "")
    return f"line{'s' if len(lines) > 1 else ''} {shown}"


def row_words(row: TechniqueRow) -> str:
    """`num_warps 4 → 8`, `+ TMA`, `− split-K 8`: one row in few words."""
    if row.old is not None and row.new is not None:
        before, after = value_words(row.old, with_lines=False), value_words(row.new, with_lines=False)
        return f"{row.name} {before} → {after}"
    finding = row.new if row.new is not None else row.old
    words = value_words(finding, with_lines=False).removeprefix("yes").strip()
    return f"{'+' if row.new is not None else '−'} {row.name} {words}".rstrip()


def shortened(text: str) -> str:
    return text if len(text) <= CONDITION_SHOWN else f"{text[: CONDITION_SHOWN - 1]}…"


def technique_name(finding: Finding) -> str:
    name = WORDS.get(finding.technique, finding.technique.value)
    if finding.technique is Technique.TILE_SIZE:
        name += f" {finding.value.partition('=')[0]}"
    return name

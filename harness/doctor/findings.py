"""What a check of this machine says: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

Detail = str | int | float | bool | None | list[str] | list[int]


class Level(StrEnum):
    """How a finding bears on what the harness is for."""

    OK = "ok"
    NOTE = "note"  # something can't be done, or could be better
    PROBLEM = "problem"  # something is broken that should work


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    area: str
    """What it is about, one or two words."""
    level: Level
    text: str
    """What was found, as a sentence or a figure."""
    advice: str = ""
    """What to do about it; empty where there is nothing to do."""
    blocks: bool = False
    """Whether no kernel can be checked and measured here as long as it stays so."""
    stops_recording: bool = False
    """Whether nothing can be recorded: `harness run` works, `harness submit` does not."""
    details: Mapping[str, Detail] = field(default_factory=dict)
    """The same by stable names, for scripts; units are in the names."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "level": self.level.value, "details": dict(self.details)}


def ok(area: str, text: str, **details: Detail) -> Finding:
    return Finding(area, Level.OK, text, details=details)


def note(area: str, text: str, advice: str = "", **details: Detail) -> Finding:
    return Finding(area, Level.NOTE, text, advice, details=details)


def problem(area: str, text: str, advice: str, *, blocks: bool = False, **details: Detail) -> Finding:
    return Finding(area, Level.PROBLEM, text, advice, blocks, details=details)


def unrecordable(text: str, advice: str, **details: Detail) -> Finding:
    """A store that nothing can be written to."""
    return Finding("store", Level.PROBLEM, text, advice, stops_recording=True, details=details)

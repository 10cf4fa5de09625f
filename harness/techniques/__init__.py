"""What a kernel's source does, read from its syntax tree. No torch, no numpy; nothing of the source is run.

Importing the rules takes longer than a screen of kept findings may take, so `extract` is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.techniques.changes import TechniqueChange, technique_changes
from harness.techniques.finding import Finding, State, Technique
from harness.techniques.version import EXTRACTOR_VERSION

if TYPE_CHECKING:
    from harness.techniques.extraction import extract

__all__ = ["EXTRACTOR_VERSION", "Finding", "State", "Technique", "TechniqueChange", "extract", "technique_changes"]


def __getattr__(name: str) -> Any:
    if name == "extract":
        from harness.techniques.extraction import extract

        return extract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

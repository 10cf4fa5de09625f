"""What a kernel's source does, read from its syntax tree. No torch, no numpy; nothing of the source is run."""

from harness.techniques.changes import TechniqueChange, technique_changes
from harness.techniques.extract import EXTRACTOR_VERSION, extract
from harness.techniques.finding import Finding, State, Technique

__all__ = ["EXTRACTOR_VERSION", "Finding", "State", "Technique", "TechniqueChange", "extract", "technique_changes"]

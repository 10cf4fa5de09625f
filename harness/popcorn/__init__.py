"""The public popcorn protocol: a board's own eval main, run as the hosted service runs it."""

from __future__ import annotations

from harness.popcorn.evaluation import PopcornEvaluation

__all__ = ["PopcornEvaluation"]

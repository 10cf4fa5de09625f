"""The record of every submission and evaluation.

Writing goes through SQLAlchemy (`Store`); reading goes through the DB-API alone (`open_reader`), because importing
SQLAlchemy takes longer than a command that only shows something may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.store.reading import Reader, best_score_ns, open_reader
from harness.store.rows import EvaluationRow, HistoryRow, Note, SubmissionRow

if TYPE_CHECKING:
    from harness.store.writing import Store

__all__ = ["EvaluationRow", "HistoryRow", "Note", "Reader", "Store", "SubmissionRow", "best_score_ns", "open_reader"]


def __getattr__(name: str) -> Any:
    if name == "Store":
        from harness.store.writing import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""How each of a user's scores stands to the ones before it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from harness.store.rows import HistoryRow


@dataclass(frozen=True)
class Step:
    """An evaluation with its score over the one before it, and over the best one before it (below one is faster).

    None for a first score and for a row without one. Only rows of the same board, grid, device and protocol count.
    """

    row: HistoryRow
    against_previous: float | None
    against_best: float | None


def steps(rows: Sequence[HistoryRow]) -> list[Step]:
    """One step for each row, which come oldest first."""
    previous: dict[Hashable, float] = {}
    best: dict[Hashable, float] = {}
    result = []
    for row in rows:
        key = row.comparable
        if key is None or row.score is None:
            result.append(Step(row, None, None))
            continue
        score_ns = row.score.value_ns
        result.append(
            Step(
                row,
                score_ns / previous[key] if key in previous else None,
                score_ns / best[key] if key in best else None,
            )
        )
        previous[key] = score_ns
        best[key] = min(score_ns, best.get(key, score_ns))
    return result

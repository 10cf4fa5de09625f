"""How each of a user's scores stands to the ones before it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.evaluation.record import Mode, Protocol
from harness.history.comparison import change
from harness.measure.comparison import Verdict
from harness.measure.ranking import Rank, rank_in, why_unranked
from harness.measure.statistics import Figure
from harness.store.rows import HistoryRow


@dataclass(frozen=True)
class Step:
    """An evaluation with its score over the one before it, and over the best one before it (below one is faster).

    None for a first score and for a row without one. Only rows of the same board, grid, device and protocol count, and
    as the best only those that `may_be_best`.
    `predecessor` is the row of the user's submission before it on the same board, scored or not. A change is `unsure`
    where it lies within the noise: the verdict that `harness diff` gives is neither faster nor slower.
    """

    row: HistoryRow
    against_previous: float | None
    against_best: float | None
    predecessor: HistoryRow | None = None
    unsure_of_previous: bool = False
    unsure_of_best: bool = False

    @property
    def is_best(self) -> bool:
        """Whether this score was the best of its class when it was made; a first one is."""
        return may_be_best(self.row) and (self.against_best is None or self.against_best < 1)


def may_be_best(row: HistoryRow) -> bool:
    """Whether a score may be its user's best: one that ranks may.

    So may one that its whole class is kept out with, by the protocol or for want of a sandbox: those are compared
    among themselves.
    """
    if row.comparable is None or row.rank_class is None or row.mode is None or row.status is None:
        return False
    if row.rank_class.protocol is not Protocol.SEALED:
        return True
    return (
        why_unranked(
            mode=row.mode,
            protocol=row.rank_class.protocol,
            status=row.status,
            interpreted=row.interpreted,
            isolation=row.rank_class.isolation,
            rank_reason=None if row.rank_reason is None else row.rank_reason.code,
            unisolated_allowed=True,
        )
        is None
    )


def like_the_newest(newest_first: Sequence[HistoryRow]) -> list[HistoryRow]:
    """The rows with a score that the newest one's may be compared with, e.g. to be drawn as one trend.

    The newest one of a whole grid, where that is known of one: a ranked run always is of all cases, whereas records of
    mode `benchmark` that an earlier harness made may have the score of a part.
    """
    scored = [row for row in newest_first if row.comparable is not None]
    whole = {row.comparable for row in scored if row.mode is Mode.LEADERBOARD}
    newest = next((row for row in scored if row.comparable in whole), scored[0] if scored else None)
    return [row for row in scored if newest is not None and row.comparable == newest.comparable]


def best_run(rows: Iterable[HistoryRow]) -> HistoryRow | None:
    """The row of the best score of those that may be it."""
    return min(
        filter(may_be_best, rows), key=lambda row: row.score.value_ns if row.score is not None else 0.0, default=None
    )


def steps(rows: Sequence[HistoryRow]) -> list[Step]:
    """One step for each row, which come oldest first."""
    previous: dict[Hashable, Figure] = {}
    best: dict[Hashable, Figure] = {}
    latest: dict[str, HistoryRow] = {}
    before: dict[str, HistoryRow] = {}
    result = []
    for row in rows:
        if row.leaderboard in latest and latest[row.leaderboard].id != row.id:
            before[row.leaderboard] = latest[row.leaderboard]
        latest[row.leaderboard] = row
        predecessor = before.get(row.leaderboard)
        key = row.comparable
        if key is None or row.score is None:
            result.append(Step(row, None, None, predecessor))
            continue
        against_previous, unsure_of_previous = _against(previous.get(key), row)
        against_best, unsure_of_best = _against(best.get(key), row)
        result.append(Step(row, against_previous, against_best, predecessor, unsure_of_previous, unsure_of_best))
        previous[key] = row.score
        if may_be_best(row):
            best[key] = min(row.score, best.get(key, row.score), key=lambda score: score.value_ns)
    return result


def _against(before: Figure | None, row: HistoryRow) -> tuple[float | None, bool]:
    """The score over one before it, and whether the two may be equal for all that the noise lets one say."""
    if before is None or row.score is None or row.rank_class is None:
        return None, False
    if row.rank_class.protocol is Protocol.HOSTED:  # published by value, without intervals
        return row.score.value_ns / before.value_ns, False
    told = change(before, row.score, row.rank_class.delta)
    return told.ratio, told.verdict not in (Verdict.FASTER, Verdict.SLOWER)


def rank_now(row: HistoryRow, best_scores: Mapping[str, float]) -> Rank | None:
    """The rank that a row's score would hold today against the best of every other user in its class.

    `best_scores` are those of the class, by user; empty for a class that does not rank. None for a row that took no
    part in the ranking.
    """
    if row.rank_then is None or row.score is None or row.rank_class is None or not best_scores:
        return None
    others = sorted(score for user, score in best_scores.items() if user != row.user)
    return rank_in(row.score.value_ns, others, row.rank_class.delta)

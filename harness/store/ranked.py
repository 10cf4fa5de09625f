"""Reading rankings from the derived tables: as many rows as a screen shows, whatever the size of the store.

A class whose standings are behind (see `harness.store.standings`) is read from its runs, slower and just as right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from harness.evaluation.record import ReasonCode
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.measure.ranking import Entry, Rank, RankClass, rank_in, ranks
from harness.store import calibrations, codec, queries, standings
from harness.store.database import Database, Row

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class BoardClass:
    """Scores of a board that may be ranked together; `unranked` is the reason why they are not, None when they are."""

    id: int
    rank_class: RankClass
    unranked: ReasonCode | None
    stale: bool

    @property
    def ranks(self) -> bool:
        """Whether these scores make a ranking, by the rules and by what the store's owner allows."""
        return standings.is_allowed("" if self.unranked is None else self.unranked.value)


@dataclass(frozen=True)
class Place:
    """The number of the rank that a user holds among so many."""

    number: int
    users: int


def classes(db: Database, leaderboard: str, known: Mapping[NoiseKey, NoiseCalibration]) -> list[BoardClass]:
    """The classes of a board that have scores, with the noise that is `known` of them, the one used last first."""
    return [_class(row, known) for row in db.rows(queries.CLASSES_OF_BOARD, {"leaderboard": leaderboard})]


def every_class(db: Database, known: Mapping[NoiseKey, NoiseCalibration]) -> list[BoardClass]:
    """Those of all boards."""
    return [_class(row, known) for row in db.rows(queries.EVERY_CLASS)]


def _class(row: Row, known: Mapping[NoiseKey, NoiseCalibration]) -> BoardClass:
    return BoardClass(
        row["id"],
        calibrations.calibrated(calibrations.rank_class_of(row), known),
        ReasonCode(row["unranked"]) if row["unranked"] else None,
        bool(row["stale"]),
    )


def best_of_users(db: Database, of: BoardClass, limit: int | None = None) -> tuple[list[Entry], int]:
    """The best source of each user, fastest first, at most `limit`; and how many users there are."""
    if of.stale:
        sources = [(user, *standings.best(runs)) for user, runs in _by_user(db, queries.RUNS_OF_CLASS, of)]
        return _entries(db, of, sources, limit), len(sources)
    rows = db.rows(queries.STANDINGS, {"class_id": of.id, "limit": NO_LIMIT if limit is None else limit})
    total = len(rows) if limit is None else db.tuples(queries.COUNT_STANDINGS, {"class_id": of.id})[0][0]
    return [_entry(row, of) for row in rows], total


def all_sources(db: Database, of: BoardClass, limit: int | None = None) -> tuple[list[Entry], int]:
    """Every source of every user, fastest first, at most `limit`; and how many there are."""
    if limit is None:
        sources = list(_sources(_by_user(db, queries.RUNS_OF_CLASS, of)))
        return _entries(db, of, sources, limit), len(sources)
    asked = 2 * max(1, limit)
    while True:
        rows = db.tuples(queries.RUNS_OF_FASTEST, {"class_id": of.id, "limit": asked})
        found = list(_sources((user, [row[3:] for row in runs]) for user, runs in groupby(rows, key=itemgetter(2))))
        total = rows[0][0] if rows else 0
        shown = sorted(found, key=_speed)[:limit]
        # A source is no faster than its fastest run, and those that were not read have none below the last one's.
        if len(found) == total or not shown or shown[-1][2].value_ns < max(row[1] for row in rows):
            return _entries(db, of, shown, limit), total
        asked *= 4


def _sources(users: Iterable[tuple[str, list[Any]]]) -> Iterator[Any]:
    """Each source of each user: user, latest run, figure, number of runs."""
    for user, runs in users:
        for source in standings.pooled_sources(runs):
            yield (user, *source)


def best_scores(db: Database, of: BoardClass) -> dict[str, float]:
    """The score in nanoseconds that each user stands with."""
    if of.stale:
        return {user: standings.best(runs)[1].value_ns for user, runs in _by_user(db, queries.RUNS_OF_CLASS, of)}
    return dict(db.tuples(queries.STANDING_SCORES, {"class_id": of.id}))


def ranks_before(db: Database, of: BoardClass, moment: datetime) -> dict[str, Rank]:
    """The rank that each user had at a moment, by what had ended before it."""
    runs_then = _by_user(db, queries.RUNS_BEFORE, of, moment=codec.time_text(moment))
    scores = {user: standings.best(runs)[1].value_ns for user, runs in runs_then}
    return dict(zip(scores, ranks(list(scores.values()), of.rank_class.delta), strict=True))


def rank_of(db: Database, of: BoardClass, user: str, score_ns: float) -> Rank:
    """The rank that a score of a user holds by itself: against the best of every other user."""
    others = sorted(score for other, score in best_scores(db, of).items() if other != user)
    return rank_in(score_ns, others, of.rank_class.delta)


def entries(db: Database, of: BoardClass) -> list[Entry]:
    """Every run of a class, by itself."""
    return [_entry(row, of) for row in db.rows(queries.ENTRIES, {"class_id": of.id})]


def count_runs(db: Database, of: BoardClass) -> int:
    """How many evaluations have a score in a class."""
    if of.stale:
        return int(db.value(queries.COUNT_RUNS, {"class_id": of.id}))
    return int(db.tuples(queries.COUNT_STANDINGS, {"class_id": of.id})[0][1])


def standing_of(db: Database, of: BoardClass, user: str) -> tuple[float, int] | None:
    """The score in nanoseconds that a user stands with, and their latest evaluation in the class."""
    who = {"class_id": of.id, "user": user}
    if not of.stale:
        found = db.tuples(queries.STANDING_OF_USER, who)
        return found[0] if found else None
    runs = db.tuples(queries.RUNS_OF_USER, who)
    return (standings.best(runs)[1].value_ns, max(run[1] for run in runs)) if runs else None


def best_of_user(db: Database, of: BoardClass, user: str) -> tuple[int, float] | None:
    """The submission that a user stands with, the latest of its source, and the score in nanoseconds."""
    who = {"class_id": of.id, "user": user}
    if not of.stale:
        found = db.tuples(queries.BEST_OF_USER, who)
        return found[0] if found else None
    runs = db.tuples(queries.RUNS_OF_USER, who)
    if not runs:
        return None
    latest, figure, _ = standings.best(runs)
    return latest[2], figure.value_ns


def places(db: Database, of: Iterable[BoardClass], user: str) -> dict[RankClass, Place]:
    """Where a user stands in each of some classes in which they do, without reading where everybody else does."""
    found: dict[RankClass, Place] = {}
    by_factor: dict[float, dict[int, BoardClass]] = {}
    for each in of:
        if each.stale:
            scores = best_scores(db, each)
            if user in scores:
                number = rank_in(scores[user], sorted(scores.values()), each.rank_class.delta).number
                found[each.rank_class] = Place(number, len(scores))
        else:
            by_factor.setdefault(1 + each.rank_class.delta, {})[each.id] = each
    for factor, some in by_factor.items():
        sql = queries.PLACES.format(class_ids=", ".join(map(str, some)))
        for class_id, faster, users in db.tuples(sql, {"user": user, "factor": factor}):
            found[some[class_id].rank_class] = Place(1 + faster, users)
    return found


def _by_user(db: Database, query: str, of: BoardClass, **parameters: str) -> Iterator[tuple[str, list[Any]]]:
    rows = db.stream(query, {"class_id": of.id, **parameters})
    for user, runs in groupby(rows, key=itemgetter(0)):
        yield user, [run[1:] for run in runs]


def _entries(db: Database, of: BoardClass, sources: Iterable[Any], limit: int | None) -> list[Entry]:
    """Entries of (user, latest run, figure, runs), with what only the submissions know looked up for those shown."""
    shown = sorted(sources, key=_speed)[:limit]
    ids = sorted({source[1][2] for source in shown})
    details = {row[0]: row[1:] for some in _chunks(ids) for row in db.tuples(_details_of(len(some)), _numbered(some))}
    return [
        Entry(
            rank_class=of.rank_class,
            user=user,
            source_sha256=latest[0],
            submission_id=latest[2],
            evaluation_id=latest[1],
            file_name=details[latest[2]][0],
            created_at=_moment(details[latest[2]][1]),
            score=figure,
            runs=runs,
        )
        for user, latest, figure, runs in shown
    ]


def _speed(source: Any) -> tuple[float, int]:
    _, latest, figure, _ = source
    return figure.value_ns, latest[1]


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    for begin in range(0, len(ids), 500):
        yield ids[begin : begin + 500]


def _details_of(count: int) -> str:
    names = ", ".join(f":n{number}" for number in range(count))
    return f"SELECT id, file_name, created_at FROM submissions WHERE id IN ({names})"


def _numbered(ids: list[int]) -> dict[str, int]:
    return {f"n{number}": each for number, each in enumerate(ids)}


def _entry(row: Row, of: BoardClass) -> Entry:
    figure = codec.score_of(row)
    assert figure is not None
    return Entry(
        rank_class=of.rank_class,
        user=row["user_name"],
        source_sha256=row["source_sha256"],
        submission_id=row["submission_id"],
        evaluation_id=row["evaluation_id"],
        file_name=row["file_name"],
        created_at=_moment(row["created_at"]),
        score=figure,
        runs=row["runs"],
    )


def _moment(text: str) -> datetime:
    moment = codec.time_of(text)
    assert moment is not None
    return moment

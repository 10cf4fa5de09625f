"""The tables that rankings are read from: rank classes, scored runs, and where each user stands in each class.

They are derived. `record` and `forget` keep them right, evaluation by evaluation; `rebuild` makes them anew from the
evaluations alone; `differences` proves the one by the other. Every function runs within the caller's transaction.

The rules (what ranks, how runs are pooled, which of a user's sources counts) are those of `harness.measure.ranking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from harness.evaluation.record import IsolationLevel, Mode, Protocol, ReasonCode, Status
from harness.measure.ranking import pool, rank_in, why_unranked
from harness.measure.statistics import Figure, Interval
from harness.store import calibrations, queries
from harness.store.database import Database
from harness.store.location import unisolated_allowed

VERSION = "2"
"""A store whose tables were made by another version of these functions is rebuilt when it is opened."""

CLASS_KEY = ("leaderboard", "grid", "device_kind", "device_name", "protocol", "isolation", "benchmarks", "unranked")
RUN_COLUMNS = (
    "class_id",
    "user_name",
    "source_sha256",
    "evaluation_id",
    "submission_id",
    "finished_at",
    "score_ns",
    "score_low_ns",
    "score_high_ns",
)
STANDING_COLUMNS = (
    "class_id",
    "user_name",
    "submission_id",
    "evaluation_id",
    "score_ns",
    "score_low_ns",
    "score_high_ns",
    "runs",
    "all_runs",
    "last_evaluation_id",
)
_CLASS_OF = itemgetter(*CLASS_KEY[:-1])
_CLASS_BELOW_BOARD = itemgetter(*CLASS_KEY[1:-1])
_RUN_OF = itemgetter(*RUN_COLUMNS[1:])
CAN_RANK = ("", ReasonCode.NOT_ISOLATED.value)
"""Values of `unranked` that the store's owner may let rank."""

# A run as these functions handle it: source, evaluation, submission, score, low, high.
Run = tuple[str, int, int, float, float | None, float | None]


def record(db: Database, evaluation_id: int) -> None:
    """Take in an evaluation that has ended; and record the rank that its score holds now, if it can rank."""
    found = db.rows(queries.SCORED_EVALUATION, {"id": evaluation_id})
    if not found:
        return
    row = found[0]
    class_id = class_of(db, class_key(row), evaluation_id)
    db.run(queries.DELETE_RUN, {"class_id": class_id, **{name: row[name] for name in RUN_COLUMNS[1:4]}})
    db.insert("scored_runs", RUN_COLUMNS, [run_row(row, class_id)])
    if class_id in stale_classes(db):  # while an import is under way: the rank is that among all the same
        refresh_class(db, class_id)
    else:
        refresh_user(db, class_id, row["user_name"])
    if unranked_of(row) in CAN_RANK:
        standing = db.tuples(queries.STANDING_SCORES, {"class_id": class_id})
        others = [score for user, score in standing if user != row["user_name"]]
        rank = rank_in(row["score_ns"], others, calibrations.delta_of_row(db, row)).number
        db.run(queries.SET_RANK_THEN, {"id": evaluation_id, "rank": rank})


def forget(db: Database, submission_id: int) -> None:
    """Take a submission's runs out again; to be called before the submission is deleted."""
    for class_id, user in db.tuples(queries.CLASSES_OF_SUBMISSION, {"id": submission_id}):
        db.run(queries.DELETE_RUNS, {"class_id": class_id, "user": user, "submission_id": submission_id})
        refresh_user(db, class_id, user)
        db.run(queries.SET_LAST_OF_CLASS, {"class_id": class_id})
        db.run(queries.DELETE_EMPTY_CLASS, {"class_id": class_id})


def refresh_user(db: Database, class_id: int, user: str) -> None:
    """Make a user's standing in a class anew from their runs there."""
    who = {"class_id": class_id, "user": user}
    db.run(queries.DELETE_STANDING, who)
    runs = db.tuples(queries.RUNS_OF_USER, who)
    if runs:
        db.insert("user_standings", STANDING_COLUMNS, [_standing(class_id, user, runs)])


def refresh_class(db: Database, class_id: int) -> None:
    """Make every standing in a class anew."""
    db.run(queries.DELETE_STANDINGS, {"class_id": class_id})
    rows = db.stream(queries.RUNS_OF_CLASS, {"class_id": class_id})
    standings = [
        _standing(class_id, user, [run[1:] for run in runs]) for user, runs in groupby(rows, key=itemgetter(0))
    ]
    db.insert("user_standings", STANDING_COLUMNS, standings)
    db.run(queries.SET_LAST_OF_CLASS, {"class_id": class_id})
    db.run(queries.SET_FRESH, {"class_id": class_id})


def stale_classes(db: Database) -> list[int]:
    """The classes whose standings are behind: a bulk write is under way, or was cut off."""
    return [row[0] for row in db.tuples(queries.STALE_CLASSES)]


def rebuild(db: Database) -> None:
    """Make all three tables anew from submissions and evaluations."""
    for table in ("user_standings", "scored_runs", "rank_classes"):
        db.run(f"DELETE FROM {table}")
    classes: dict[tuple[str, ...], int] = {}
    after = 0
    while rows := db.rows(queries.SCORED_EVALUATIONS, {"after": after, "limit": 5000}):
        runs = []
        for row in rows:
            key = class_key(row)
            if key not in classes:
                classes[key] = class_of(db, key, row["evaluation_id"])
            runs.append(run_row(row, classes[key]))
        db.insert("scored_runs", RUN_COLUMNS, runs)
        after = rows[-1]["evaluation_id"]
    for class_id in classes.values():
        refresh_class(db, class_id)
    db.run(queries.FORGET_INFO, {"key": "standings"})
    db.run(queries.SET_INFO, {"key": "standings", "value": VERSION})


def differences(db: Database) -> list[str]:
    """Rebuild the tables and say what was not as it should have been; the tables are right afterwards."""
    before = _contents(db)
    rebuild(db)
    after = _contents(db)
    return [f"missing: {row}" for row in sorted(after - before)] + [f"wrong: {row}" for row in sorted(before - after)]


def class_key(row: Any) -> tuple[str, ...]:
    """The class of a scored evaluation, as `CLASS_KEY` has it."""
    return (*_CLASS_OF(row), unranked_of(row))


def class_key_on(leaderboard: str, columns: Any) -> tuple[str, ...]:
    """The same of columns without the board."""
    return (leaderboard, *_CLASS_BELOW_BOARD(columns), unranked_of(columns))


def unranked_of(row: Any) -> str:
    """Why a scored evaluation does not rank, or an empty string."""
    return _unranked(row["protocol"], bool(row["interpreted"]), row["isolation"], row["rank_reason_code"])


def takes_part(row: Any) -> bool:
    """Whether an evaluation ended in a way that its score, if it has one, goes into a class."""
    return bool(row["status"] == Status.PASSED.value and row["mode"] == Mode.LEADERBOARD.value)


def ranks(row: Any) -> bool:
    """Whether the score of an evaluation ranks, by the rules and by what the store's owner allows."""
    return takes_part(row) and is_allowed(unranked_of(row))


def is_allowed(unranked: str) -> bool:
    """Whether scores rank that this reason speaks against, if any does: the store's owner may lift one."""
    return not unranked or (unranked == ReasonCode.NOT_ISOLATED.value and unisolated_allowed())


@lru_cache
def _unranked(protocol: str, interpreted: bool, isolation: str, rank_reason: str | None) -> str:
    reason = why_unranked(
        mode=Mode.LEADERBOARD,
        protocol=Protocol(protocol),
        status=Status.PASSED,
        interpreted=interpreted,
        isolation=IsolationLevel(isolation),
        rank_reason=None if rank_reason is None else ReasonCode(rank_reason),
        unisolated_allowed=False,
    )
    return "" if reason is None else reason.value


def class_of(db: Database, key: Sequence[str], evaluation_id: int) -> int:
    """The id of a rank class, made if need be; `evaluation_id` is the evaluation that joins it."""
    parameters = dict(zip(CLASS_KEY, key, strict=True))
    class_id = db.value(queries.CLASS_ID, parameters)
    if class_id is None:
        db.run(queries.ADD_CLASS, {**parameters, "last": evaluation_id, "stale": False})
        return int(db.value(queries.CLASS_ID, parameters))
    db.run(queries.MOVE_CLASS, {"class_id": class_id, "last": evaluation_id})
    return int(class_id)


def stale_classes_of(db: Database, keys: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """The ids of rank classes, made if need be, for a bulk write that adds runs and leaves the standings behind."""
    known = {row[2:]: row[:2] for row in db.tuples(queries.CLASSES)}
    ids: dict[tuple[str, ...], int] = {}
    for key in keys:
        class_id, stale = known.get(key, (None, False))
        if class_id is None:
            class_id = class_of(db, key, 0)
        if not stale:
            db.run(queries.SET_STALE, {"class_id": class_id})
        ids[key] = class_id
    return ids


def run_row(row: Any, class_id: int) -> tuple[Any, ...]:
    """A row of `scored_runs`, in the order of `RUN_COLUMNS`."""
    return (class_id, *_RUN_OF(row))


def best(runs: Iterable[Run]) -> tuple[Run, Figure, int]:
    """The source that stands for a user, from all their runs in a class in order of source: its latest run, the
    figure of all its runs, and their number."""
    runs = list(runs)
    if len({run[0] for run in runs}) == len(runs):  # most of what is imported; the same without figures to pool
        first = min(runs, key=itemgetter(3, 1))
        return first, figure_of(first), 1
    return min(pooled_sources(runs), key=lambda source: (source[1].value_ns, source[0][1]))


def pooled_sources(runs: Iterable[Run]) -> list[tuple[Run, Figure, int]]:
    """Each source of one user's runs, which come in order of source: latest run, figure, number of runs."""
    pooled = []
    for _, group in groupby(runs, key=itemgetter(0)):
        of_source = list(group)
        if len(of_source) == 1:
            pooled.append((of_source[0], figure_of(of_source[0]), 1))
        else:
            figure = pool([figure_of(run) for run in of_source])
            pooled.append((max(of_source, key=itemgetter(1)), figure, len(of_source)))
    return pooled


def figure_of(run: Run) -> Figure:
    _, _, _, score_ns, low_ns, high_ns = run
    return Figure(score_ns, None if low_ns is None or high_ns is None else Interval(low_ns, high_ns))


def _standing(class_id: int, user: str, runs: Sequence[Any]) -> tuple[Any, ...]:
    latest, figure, count = best(runs)
    interval = figure.interval_ns
    return (
        class_id,
        user,
        latest[2],
        latest[1],
        figure.value_ns,
        None if interval is None else interval.low,
        None if interval is None else interval.high,
        count,
        len(runs),
        max(run[1] for run in runs),
    )


def _contents(db: Database) -> set[str]:
    """Every row of the tables as text, with classes by what they are and not by their ids."""
    return {repr(row) for sql in queries.DERIVED_CONTENTS for row in db.tuples(sql)}

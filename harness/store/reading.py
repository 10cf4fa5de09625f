"""Reading the store without SQLAlchemy: `with open_reader() as reader: reader.submission(7)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from harness.calibrating.record import DeviceCalibration
from harness.evaluation.record import Mode, ReasonCode, Status
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.measure.ranking import Entry, Rank, RankClass
from harness.store import calibrations, codec, queries, ranked, standings
from harness.store.database import Database
from harness.store.location import explain, location
from harness.store.made_rows import history_row, note_of, submission_row
from harness.store.opening import is_database_error, open_database
from harness.store.ranked import BoardClass, Place
from harness.store.rows import EvaluationRow, HistoryRow, Note, Standing, SubmissionRow

_LARGEST_ID = 2**63 - 1


@contextmanager
def open_reader(url: str | None = None) -> Iterator[Reader]:
    """A reader of the store at `url` (default `location.database_url()`).

    A store that doesn't exist yet reads as empty, and is not made. One of an older schema is migrated first.
    Evaluations whose process has ended are marked interrupted. Raises MachineError when the store can't be read.
    """
    place = location(url)
    try:
        db = open_database(place)
    except Exception as error:
        if isinstance(error, OSError) or is_database_error(error):
            raise explain(error, place) from error
        raise
    try:
        yield Reader(db)
    except Exception as error:
        if is_database_error(error):
            raise explain(error, place) from error
        raise
    finally:
        if db is not None:
            db.close()


class Reader:
    """Queries that give rows as values. `db` is None for a store that doesn't exist: then all is empty."""

    def __init__(self, db: Database | None) -> None:
        self._db = db
        self._known_noises: dict[NoiseKey, NoiseCalibration] | None = None

    @property
    def database(self) -> Database | None:
        """What it reads through; None for a store that doesn't exist."""
        return self._db

    def submission(self, submission_id: int) -> SubmissionRow | None:
        if submission_id > _LARGEST_ID:
            return None
        return self._submission(queries.SUBMISSION, {"id": submission_id})

    def latest_submission(self, user: str, leaderboard: str | None = None) -> SubmissionRow | None:
        """The user's newest submission, on one board or on any."""
        if leaderboard is None:
            return self._submission(queries.LATEST, {"user": user})
        return self._submission(queries.LATEST_ON_BOARD, {"user": user, "leaderboard": leaderboard})

    def last_submission_id(self) -> int | None:
        rows = self._rows(queries.LAST_SUBMISSION_ID)
        return rows[0]["id"] if rows else None

    def source(self, sha256: str) -> str:
        """The text of a source that a submission names."""
        text: str = self._rows(queries.SOURCE, {"sha256": sha256})[0]["text"]
        return text

    def notes(self, submission_id: int) -> list[Note]:
        """The remarks on a submission, oldest first."""
        return [note_of(row) for row in self._rows(queries.NOTES, {"submission_id": submission_id})]

    def tags(self, submission_id: int) -> list[str]:
        """The tags of a submission, by name."""
        return [row["tag"] for row in self._rows(queries.TAGS, {"submission_id": submission_id})]

    def tagged(self, user: str, tag: str) -> list[int]:
        """The ids of the user's submissions that have a tag, in order."""
        return [row["id"] for row in self._rows(queries.TAGGED, {"user": user, "tag": tag})]

    def remarks(self, submission_ids: Iterable[int]) -> tuple[dict[int, list[str]], dict[int, list[Note]]]:
        """The tags and the notes of several submissions, as `tags` and `notes` give those of one, by id; only of those
        that have some."""
        tags: dict[int, list[str]] = {}
        notes: dict[int, list[Note]] = {}
        if self._db is not None:
            ids = sorted(set(submission_ids))
            for submission_id, tag in sorted(self._db.look_up("tags", "submission_id", ids, "submission_id, tag")):
                tags.setdefault(submission_id, []).append(tag)
            columns = ("id", "submission_id", "created_at", "text")
            for row in sorted(self._db.look_up("notes", "submission_id", ids, ", ".join(columns))):
                notes.setdefault(row[1], []).append(note_of(dict(zip(columns, row, strict=True))))
        return tags, notes

    def techniques(self, sha256: str, extractor_version: int) -> str | None:
        """What that version of the extractor read from a source, as JSON text; None when it was not kept."""
        rows = self._rows(queries.TECHNIQUES, {"sha256": sha256, "version": extractor_version})
        return rows[0]["findings"] if rows else None

    def has_source(self, sha256: str) -> bool:
        """Whether a source is recorded."""
        return bool(self._rows(queries.HAS_SOURCE, {"sha256": sha256}))

    def compilations(self, sha256: str, leaderboard: str) -> list[str]:
        """What compile mode said of a source on a board's cases, as JSON text, by architecture."""
        rows = self._rows(queries.COMPILATIONS, {"sha256": sha256, "leaderboard": leaderboard})
        return [row["report"] for row in rows]

    def leaderboards(self) -> list[str]:
        """The boards that have submissions, by name."""
        return [row["leaderboard"] for row in self._rows(queries.LEADERBOARDS)]

    def has_leaderboard(self, leaderboard: str) -> bool:
        """Whether a board has submissions."""
        return bool(self._rows(queries.HAS_LEADERBOARD, {"leaderboard": leaderboard}))

    def evaluation(self, evaluation_id: int) -> EvaluationRow | None:
        rows = self._rows(queries.EVALUATION, {"id": evaluation_id})
        return self._evaluation(rows[0]) if rows else None

    def evaluations(self, submission_id: int, *, with_rank: bool = True) -> list[EvaluationRow]:
        """The evaluations of a submission with their cases, oldest first. A rank takes reading the board's scores."""
        rows = self._rows(queries.EVALUATIONS, {"submission_id": submission_id})
        return [self._evaluation(row, with_rank=with_rank) for row in rows]

    def history(self, user: str, leaderboard: str | None = None) -> list[HistoryRow]:
        """A user's evaluations, oldest first, on one board or on all."""
        if leaderboard is None:
            rows = self._rows(queries.HISTORY, {"user": user})
        else:
            rows = self._rows(queries.HISTORY_OF_BOARD, {"user": user, "leaderboard": leaderboard})
        known = self._noises() if rows else {}
        classes: dict[tuple[str, ...], RankClass] = {}  # few, of many rows
        return [history_row(row, known, classes) for row in rows]

    def board_classes(self, leaderboard: str) -> list[BoardClass]:
        """The classes of a board's scores, those that rank and those that don't, the one used last first."""
        return [] if self._db is None else ranked.classes(self._db, leaderboard, self._noises())

    def best_of_users(self, of: BoardClass, limit: int | None = None) -> tuple[list[Entry], int]:
        """The best source of each user, fastest first, at most `limit`; and how many users there are."""
        return ([], 0) if self._db is None else ranked.best_of_users(self._db, of, limit)

    def all_sources(self, of: BoardClass, limit: int | None = None) -> tuple[list[Entry], int]:
        """Every source of every user, fastest first, at most `limit`; and how many there are."""
        return ([], 0) if self._db is None else ranked.all_sources(self._db, of, limit)

    def best_scores(self, rank_class: RankClass) -> dict[str, float]:
        """The score in nanoseconds that each user stands with in a class; empty for one that does not rank."""
        return {
            user: score_ns
            for of in self._ranking(rank_class.leaderboard)
            if of.rank_class == rank_class
            for user, score_ns in ranked.best_scores(self._database(), of).items()
        }

    def places(self, user: str, rank_classes: Iterable[RankClass]) -> dict[RankClass, Place]:
        """Where a user stands in those of the classes that rank and in which they have a score."""
        wanted = set(rank_classes)
        if self._db is None or not wanted:
            return {}
        every = ranked.every_class(self._db, self._noises())
        return ranked.places(self._db, [of for of in every if of.ranks and of.rank_class in wanted], user)

    def ranks_before(self, of: BoardClass, moment: datetime) -> dict[str, Rank]:
        """The rank that each user of a class had at a moment, by what had ended before it."""
        return {} if self._db is None else ranked.ranks_before(self._db, of, moment)

    def entries(self, leaderboard: str) -> list[Entry]:
        """Every evaluation of the board that takes part in a ranking, of all rank classes, oldest first.

        It reads every score of the board; `board_classes` and what takes one read what they give.
        """
        found = [entry for of in self._ranking(leaderboard) for entry in ranked.entries(self._database(), of)]
        return sorted(found, key=lambda entry: entry.evaluation_id)

    def unranked(self, leaderboard: str) -> dict[ReasonCode, int]:
        """How many evaluations of the board have a score and do not rank, by reason."""
        counts: dict[ReasonCode, int] = {}
        for of in self.board_classes(leaderboard):
            if of.unranked is not None and not of.ranks:
                counts[of.unranked] = counts.get(of.unranked, 0) + ranked.count_runs(self._database(), of)
        return counts

    def best_score_ns(self, leaderboard: str, user: str) -> float | None:
        """The user's best ranked score in nanoseconds, in the rank class of their latest ranked evaluation.

        Scores of different classes (a laptop's CPU grid, a GPU's full grid) are not compared, so the class that the
        user worked in last is the one meant.
        """
        found = [ranked.standing_of(self._database(), of, user) for of in self._ranking(leaderboard)]
        latest = max((standing for standing in found if standing is not None), key=lambda each: each[1], default=None)
        return None if latest is None else latest[0]

    def device_calibration(self, device_name: str) -> DeviceCalibration | None:
        """What was last calibrated on a device of that name."""
        return None if self._db is None else calibrations.latest_device(self._db, device_name)

    def noise_calibrations(self, leaderboard: str) -> list[NoiseCalibration]:
        """The newest calibration of the noise between runs of a board, for each device, grid and protocol."""
        return [each for key, each in self._noises().items() if key.leaderboard == leaderboard]

    def _noises(self) -> dict[NoiseKey, NoiseCalibration]:
        if self._known_noises is None:
            self._known_noises = {} if self._db is None else calibrations.noises(self._db)
        return self._known_noises

    def _ranking(self, leaderboard: str) -> list[BoardClass]:
        return [of for of in self.board_classes(leaderboard) if of.ranks]

    def _database(self) -> Database:
        assert self._db is not None  # who asks has rows of it
        return self._db

    def _submission(self, query: str, parameters: Mapping[str, Any]) -> SubmissionRow | None:
        rows = self._rows(query, parameters)
        if not rows:
            return None
        return submission_row(rows[0])

    def _evaluation(self, row: codec.Row, *, with_rank: bool = True) -> EvaluationRow:
        evaluation = EvaluationRow(
            id=row["id"],
            submission_id=row["submission_id"],
            header=codec.header_of(row),
            outcome=codec.outcome_of(row),
            cases=tuple(codec.case_of(case) for case in self._rows(queries.CASES, {"evaluation_id": row["id"]})),
            score=codec.score_of(row),
            started_at=codec.time_of(row["started_at"]),
            finished_at=codec.time_of(row["finished_at"]),
        )
        score = evaluation.score
        if score is None:
            return evaluation
        leaderboard = row["leaderboard"]
        if self._noises():
            noise = calibrations.noise_for(evaluation.rank_class(leaderboard), self._noises())
            evaluation = replace(evaluation, noise=noise)
        if not with_rank:
            return evaluation
        key = standings.class_key(row)
        own = next((of for of in self._ranking(leaderboard) if _key(of) == key), None)
        ranks = own is not None and evaluation.header.mode is Mode.LEADERBOARD
        if own is None or not ranks or evaluation.outcome.status is not Status.PASSED:
            return evaluation
        rank = ranked.rank_of(self._database(), own, row["user_name"], score.value_ns)
        best = ranked.best_of_user(self._database(), own, row["user_name"])
        if best is None:
            return replace(evaluation, rank=rank)
        by, best_ns = best
        users = rank if best_ns == score.value_ns else ranked.rank_of(self._database(), own, row["user_name"], best_ns)
        return replace(evaluation, rank=rank, standing=Standing(users, by))

    def _rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[codec.Row]:
        return [] if self._db is None else self._db.rows(query, parameters)


def best_score_ns(leaderboard: str, user: str, url: str | None = None) -> float | None:
    """`Reader.best_score_ns` of the store at `url`."""
    with open_reader(url) as reader:
        return reader.best_score_ns(leaderboard, user)


def best_scores_ns(leaderboards: Iterable[str], user: str, url: str | None = None) -> dict[str, float | None]:
    """`Reader.best_score_ns` of several boards."""
    with open_reader(url) as reader:
        return {leaderboard: reader.best_score_ns(leaderboard, user) for leaderboard in leaderboards}


def _key(of: BoardClass) -> tuple[str, ...]:
    c = of.rank_class
    unranked = "" if of.unranked is None else of.unranked.value
    return (
        c.leaderboard,
        c.grid.value,
        c.device_kind,
        c.device,
        c.protocol.value,
        c.isolation.value,
        c.benchmarks,
        unranked,
    )

"""Reading the store without SQLAlchemy: `with open_reader() as reader: reader.submission(7)`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.boards.board import GridName
from harness.errors import MachineError
from harness.evaluation.record import IsolationLevel, Mode, Protocol, ReasonCode, Status
from harness.measure.ranking import Entry, RankClass, best_per_user, rank_among, why_unranked
from harness.store import codec, queries
from harness.store.location import BUSY_TIMEOUT_S, database_url, explain, sqlite_path, unisolated_allowed
from harness.store.process import ProcessIdentity, is_gone
from harness.store.rows import EvaluationRow, HistoryRow, Note, SubmissionRow

INTERRUPTED_MESSAGE = "the process that ran it ended before it did"


@contextmanager
def open_reader(url: str | None = None) -> Iterator[Reader]:
    """A reader of the store at `url` (default `location.database_url()`).

    A store that doesn't exist yet reads as empty, and is not made. One of an older schema is migrated first.
    Evaluations whose process has ended are marked interrupted. Raises MachineError when the store can't be read.
    """
    path = sqlite_path(url or database_url())
    try:
        connection = _connect(path)
    except (sqlite3.Error, OSError) as error:
        raise explain(error, str(path)) from error
    try:
        yield Reader(connection)
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error
    finally:
        if connection is not None:
            connection.close()


class Reader:
    """Queries that give rows as values. `connection` is None for a store that doesn't exist: then all is empty."""

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection

    def submission(self, submission_id: int) -> SubmissionRow | None:
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
        return [_note(row) for row in self._rows(queries.NOTES, {"submission_id": submission_id})]

    def tags(self, submission_id: int) -> list[str]:
        """The tags of a submission, by name."""
        return [row["tag"] for row in self._rows(queries.TAGS, {"submission_id": submission_id})]

    def techniques(self, sha256: str, extractor_version: int) -> str | None:
        """What that version of the extractor read from a source, as JSON text; None when it was not kept."""
        rows = self._rows(queries.TECHNIQUES, {"sha256": sha256, "version": extractor_version})
        return rows[0]["findings"] if rows else None

    def leaderboards(self) -> list[str]:
        """The boards that have submissions, by name."""
        return [row["leaderboard"] for row in self._rows(queries.LEADERBOARDS)]

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
        return [_history_row(row) for row in rows]

    def entries(self, leaderboard: str) -> list[Entry]:
        """Every evaluation of the board that takes part in a ranking, of all rank classes, oldest first."""
        return [_entry(row) for row in self._scored(leaderboard) if _why_unranked(row) is None]

    def unranked(self, leaderboard: str) -> dict[ReasonCode, int]:
        """How many evaluations of the board have a score and do not rank, by reason."""
        counts: dict[ReasonCode, int] = {}
        for row in self._scored(leaderboard):
            reason = _why_unranked(row)
            if isinstance(reason, ReasonCode):
                counts[reason] = counts.get(reason, 0) + 1
        return counts

    def _scored(self, leaderboard: str) -> list[HistoryRow]:
        return [_history_row(row) for row in self._rows(queries.SCORED, {"leaderboard": leaderboard})]

    def _submission(self, query: str, parameters: Mapping[str, Any]) -> SubmissionRow | None:
        rows = self._rows(query, parameters)
        if not rows:
            return None
        row = rows[0]
        created_at = codec.time_of(row["created_at"])
        assert created_at is not None
        return SubmissionRow(
            id=row["id"],
            leaderboard=row["leaderboard"],
            user=row["user_name"],
            file_name=row["file_name"],
            sha256=row["source_sha256"],
            created_at=created_at,
            gpus=tuple(json.loads(row["gpus"])),
            previous=row["previous"],
        )

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
        if evaluation.score is None or not with_rank:
            return evaluation
        submission = self.submission(row["submission_id"])
        assert submission is not None
        entries = self.entries(submission.leaderboard)
        own = next((entry for entry in entries if entry.evaluation_id == evaluation.id), None)
        return evaluation if own is None else replace(evaluation, rank=rank_among(own, entries))

    def _rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[codec.Row]:
        return [] if self._connection is None else self._connection.execute(query, parameters or {}).fetchall()


def best_score_ns(leaderboard: str, user: str, url: str | None = None) -> float | None:
    """The user's best ranked score in nanoseconds, in the rank class of their latest ranked evaluation.

    Scores of different classes (a laptop's CPU grid, a GPU's full grid) are not compared, so the class that the user
    worked in last is the one meant.
    """
    with open_reader(url) as reader:
        own = [entry for entry in reader.entries(leaderboard) if entry.user == user]
    if not own:
        return None
    latest = max(own, key=lambda entry: entry.evaluation_id)
    best = best_per_user(entry for entry in own if entry.rank_class == latest.rank_class)
    return best[0].score.value_ns


def mark_interrupted(connection: sqlite3.Connection) -> None:
    """Close the books of every evaluation whose process has ended."""
    for row in connection.execute(queries.RUNNING).fetchall():
        if is_gone(ProcessIdentity(row["host"], row["pid"], row["process_start"])):
            connection.execute(queries.MARK_INTERRUPTED, {"id": row["id"], "message": INTERRUPTED_MESSAGE})


def check_version(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the schema is up to date; False when a migration must run. Raises MachineError for what is not ours or
    is of a newer version."""
    if not connection.execute(queries.HAS_VERSION).fetchone()["n"]:
        if connection.execute(queries.HAS_TABLES).fetchone()["n"]:
            raise MachineError(
                "this database holds something else than a harness store",
                where=str(path),
                hint="Nothing was changed. Set HARNESS_DATABASE_URL or HARNESS_HOME to another place.",
            )
        return False
    row = connection.execute(queries.VERSION).fetchone()
    version = "" if row is None else str(row["version_num"])
    if version > queries.SCHEMA_VERSION:
        raise MachineError(
            f"the store was written by a newer harness (schema {version}, this one knows {queries.SCHEMA_VERSION})",
            where=str(path),
            hint="Nothing was changed. Upgrade harness, or set HARNESS_HOME to another folder.",
        )
    return version == queries.SCHEMA_VERSION


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode to a file that exists; rows are mappings by column name."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
    )
    connection.row_factory = _named
    return connection


def _named(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> codec.Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _connect(path: Path) -> sqlite3.Connection | None:
    if not path.exists():
        return None
    connection = connect_sqlite(path)
    try:
        if not check_version(connection, path):
            connection.close()
            from harness.store.writing import Store

            Store.open(f"sqlite:///{path}").close()
            connection = connect_sqlite(path)
        with suppress(sqlite3.OperationalError):  # a store that may only be read is shown as it stands
            mark_interrupted(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _note(row: codec.Row) -> Note:
    created_at = codec.time_of(row["created_at"])
    assert created_at is not None
    return Note(row["id"], created_at, row["text"])


def _history_row(row: codec.Row) -> HistoryRow:
    created_at = codec.time_of(row["created_at"])
    assert created_at is not None
    evaluated = row["evaluation_id"] is not None
    return HistoryRow(
        id=row["id"],
        leaderboard=row["leaderboard"],
        user=row["user_name"],
        file_name=row["file_name"],
        sha256=row["source_sha256"],
        created_at=created_at,
        evaluation_id=row["evaluation_id"],
        mode=Mode(row["mode"]) if evaluated else None,
        status=Status(row["status"]) if evaluated else None,
        reason=codec.reason_of(row, "reason"),
        rank_reason=codec.reason_of(row, "rank_reason"),
        rank_class=_rank_class(row) if evaluated else None,
        interpreted=bool(row["interpreted"]),
        score=codec.score_of(row),
    )


def _rank_class(row: codec.Row) -> RankClass:
    return RankClass(
        leaderboard=row["leaderboard"],
        grid=GridName(row["grid"]),
        device_kind=row["device_kind"],
        device=row["device_name"],
        protocol=Protocol(row["protocol"]),
        isolation=IsolationLevel(row["isolation"]),
    )


def _why_unranked(row: HistoryRow) -> ReasonCode | Mode | Status | None:
    """What keeps an evaluated row out of the ranking; None when it ranks."""
    assert row.mode is not None
    assert row.status is not None
    assert row.rank_class is not None
    return why_unranked(
        mode=row.mode,
        protocol=row.rank_class.protocol,
        status=row.status,
        interpreted=row.interpreted,
        isolation=row.rank_class.isolation,
        rank_reason=None if row.rank_reason is None else row.rank_reason.code,
        unisolated_allowed=unisolated_allowed(),
    )


def _entry(row: HistoryRow) -> Entry:
    """A row that ranks, as a ranking's entry."""
    assert row.rank_class is not None
    assert row.evaluation_id is not None
    assert row.score is not None
    return Entry(
        rank_class=row.rank_class,
        user=row.user,
        source_sha256=row.sha256,
        submission_id=row.id,
        evaluation_id=row.evaluation_id,
        file_name=row.file_name,
        created_at=row.created_at,
        score=row.score,
    )

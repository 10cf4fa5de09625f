"""Writing many submissions at once, each with what belongs to it, so that writing them again adds nothing.

Every submission and evaluation comes with its origin: a text that names it wherever it goes. What the store holds
already, by its origin or because it was made here, is left as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from harness.store import queries, standings
from harness.store.database import Database, connect
from harness.store.location import explain, location
from harness.store.reading import is_database_error

SUBMISSION_COLUMNS = (
    "id",
    "leaderboard",
    "user_name",
    "file_name",
    "source_sha256",
    "created_at",
    "gpus",
    "origin",
    "published",
)
_CACHE_KIB = 32 * 1024
_PAGES_A_CHECKPOINT = (
    32 * 1024
)  # pages of indexes are written again and again: into the database itself only now and then


@dataclass(frozen=True)
class NewEvaluation:
    """`columns` are those of the tables, as `harness.store.codec` makes them, without ids and origin."""

    origin: str
    columns: Mapping[str, Any]
    cases: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class NewSubmission:
    """`created_at` and `gpus` as the tables have them; notes are (created_at, text)."""

    origin: str
    leaderboard: str
    user: str
    file_name: str
    source_text: str
    created_at: str
    gpus: str
    published: str | None = None
    evaluations: Sequence[NewEvaluation] = ()
    notes: Sequence[tuple[str, str]] = ()
    tags: Sequence[str] = ()


@dataclass
class Added:
    """How many of each were new; `known` counts submissions given that added nothing."""

    submissions: int = 0
    evaluations: int = 0
    known: int = 0


@contextmanager
def open_bulk(url: str | None = None) -> Iterator[BulkWriter]:
    """A writer to the store at `url` (default `location.database_url()`), made or migrated if need be.

    Leaving the block brings the standings up to date. A block that is cut off leaves what was added, and standings
    that the next writer mends. Raises MachineError when the store can't be written.
    """
    from harness.store.writing import Store

    place = location(url)
    Store.open(url).close()
    try:
        db = connect(place)
    except Exception as error:
        if isinstance(error, OSError) or is_database_error(error):
            raise explain(error, place) from error
        raise
    try:
        if not db.postgres:
            # An import that a power cut undoes in part is simply run again.
            db.run("PRAGMA synchronous = NORMAL")
            db.run(f"PRAGMA cache_size = -{_CACHE_KIB}")
            db.run(f"PRAGMA wal_autocheckpoint = {_PAGES_A_CHECKPOINT}")
        writer = BulkWriter(db)
        try:
            yield writer
        finally:
            writer.settle()
    except Exception as error:
        if is_database_error(error):
            raise explain(error, place) from error
        raise
    finally:
        db.close()


class BulkWriter:
    """Adds batches, one transaction each."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._store_id = str(db.value(queries.INFO, {"key": "store_id"}))
        self.added = Added()

    def add(self, batch: Sequence[NewSubmission]) -> None:
        """Add what is new of a batch, in its order."""
        shas = [hashlib.sha256(each.source_text.encode()).hexdigest() for each in batch]
        with self._db.transaction():
            _Batch(self._db, self._store_id, batch, shas).write(self.added)

    def settle(self) -> None:
        """Bring the standings of every class that got runs up to date."""
        for class_id in standings.stale_classes(self._db):
            with self._db.transaction():
                standings.refresh_class(self._db, class_id)
        if self._db.postgres and self.added.submissions:
            self._db.run("ANALYZE")


class _Batch:
    """One batch on its way into the tables."""

    def __init__(self, db: Database, store_id: str, batch: Sequence[NewSubmission], shas: Sequence[str]) -> None:
        self._db = db
        self._own = f"{store_id}/"
        self._batch = batch
        self._shas = shas

    def write(self, added: Added) -> None:
        known = self._known()
        known_evaluations = self._evaluations_of(set(known.values()))
        new: dict[str, int] = {}  # origin -> index in the batch
        evaluations: dict[str, tuple[NewEvaluation, int]] = {}
        before = added.known
        for index, each in enumerate(self._batch):
            is_new = each.origin not in known and each.origin not in new
            if is_new:
                new[each.origin] = index
            fresh = [
                evaluation
                for evaluation in each.evaluations
                if evaluation.origin not in known_evaluations and evaluation.origin not in evaluations
            ]
            evaluations.update((evaluation.origin, (evaluation, index)) for evaluation in fresh)
            added.known += not is_new and not fresh
        added.submissions += len(new)
        added.evaluations += len(evaluations)
        if added.known - before == len(self._batch) and not any(each.notes or each.tags for each in self._batch):
            return
        self._write_sources(list(new.values()))
        ids = {**known, **dict(zip(new, self._db.new_ids("submissions", len(new)), strict=True))}
        self._db.insert("submissions", SUBMISSION_COLUMNS, [self._submission(ids[o], i) for o, i in new.items()])
        self._write_evaluations(list(evaluations.values()), ids)
        self._write_remarks(ids)

    def _known(self) -> dict[str, int]:
        """The ids of submissions that are there already, by origin: imported before, or made in this very store."""
        origins = {each.origin for each in self._batch}
        found = dict(self._db.look_up("submissions", "origin", origins, "origin, id"))
        ours = {int(origin.removeprefix(self._own)) for origin in origins if self._is_ours(origin)}
        rows = self._db.look_up("submissions", "id", ours, "id, origin")
        return found | {f"{self._own}{row[0]}": row[0] for row in rows if row[1] is None}

    def _evaluations_of(self, submission_ids: set[int]) -> set[str]:
        """The origins of the evaluations that these submissions have already."""
        rows = self._db.look_up("evaluations", "submission_id", submission_ids, "id, origin")
        return {origin or f"{self._own}{evaluation_id}" for evaluation_id, origin in rows}

    def _is_ours(self, origin: str) -> bool:
        number = origin.removeprefix(self._own)
        return number != origin and number.isascii() and number.isdigit() and len(number) < 10

    def _write_sources(self, indices: Sequence[int]) -> None:
        texts = {self._shas[index]: self._batch[index].source_text for index in indices}
        for (sha256,) in self._db.look_up("sources", "sha256", list(texts), "sha256"):
            del texts[sha256]
        self._db.insert("sources", ("sha256", "text"), sorted(texts.items()))

    def _submission(self, submission_id: int, index: int) -> tuple[Any, ...]:
        s = self._batch[index]
        sha256 = self._shas[index]
        return (submission_id, s.leaderboard, s.user, s.file_name, sha256, s.created_at, s.gpus, s.origin, s.published)

    def _write_evaluations(self, new: Sequence[tuple[NewEvaluation, int]], ids: Mapping[str, int]) -> None:
        if not new:
            return
        evaluation_ids = self._db.new_ids("evaluations", len(new))
        names = tuple(new[0][0].columns)
        values_of = itemgetter(*names)
        rows: list[tuple[Any, ...]] = []
        cases: list[tuple[Any, ...]] = []
        scored: list[tuple[tuple[str, ...], tuple[Any, ...]]] = []
        for (evaluation, index), evaluation_id in zip(new, evaluation_ids, strict=True):
            submission = self._batch[index]
            submission_id = ids[submission.origin]
            columns = evaluation.columns
            rows.append((evaluation_id, submission_id, evaluation.origin, *values_of(columns)))
            if evaluation.cases:
                cases += [(evaluation_id, *case.values()) for case in evaluation.cases]
            if columns["score_ns"] is not None and columns["status"] == "passed" and columns["mode"] == "leaderboard":
                key = standings.class_key({**columns, "leaderboard": submission.leaderboard})
                moment = columns["finished_at"] or columns["started_at"]
                score = columns["score_ns"], columns["score_low_ns"], columns["score_high_ns"]
                run = (submission.user, self._shas[index], evaluation_id, submission_id, moment, *score)
                scored.append((key, run))
        self._db.insert("evaluations", ("id", "submission_id", "origin", *names), rows)
        if cases:
            first = next(evaluation.cases[0] for evaluation, _ in new if evaluation.cases)
            self._db.insert("case_results", ("evaluation_id", *first), cases)
        classes = standings.stale_classes_of(self._db, dict.fromkeys(key for key, _ in scored))
        runs = sorted((classes[key], *run) for key, run in scored)
        self._db.insert("scored_runs", standings.RUN_COLUMNS, runs)

    def _write_remarks(self, ids: Mapping[str, int]) -> None:
        notes: list[tuple[Any, ...]] = []
        tags: list[tuple[Any, ...]] = []
        for each in self._batch:
            if not each.notes and not each.tags:
                continue
            of = {"submission_id": ids[each.origin]}
            has = {(row["created_at"], row["text"]) for row in self._db.rows(queries.NOTES, of)}
            notes += [(of["submission_id"], *note) for note in each.notes if note not in has]
            has_tags = {row["tag"] for row in self._db.rows(queries.TAGS, of)}
            tags += [(of["submission_id"], tag) for tag in dict.fromkeys(each.tags) if tag not in has_tags]
        self._db.insert("notes", ("submission_id", "created_at", "text"), list(dict.fromkeys(notes)))
        self._db.insert("tags", ("submission_id", "tag"), list(dict.fromkeys(tags)))

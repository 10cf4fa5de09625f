"""Writing many submissions at once, each with what belongs to it, so that writing them again adds nothing.

Every submission and evaluation comes with its origin: a text that names it wherever it goes. What the store holds
already, by its origin or because it was made here, is left as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from harness.store import queries, standings
from harness.store.calibrations import Calibration, table_and_columns
from harness.store.database import Database, connect
from harness.store.location import explain, location
from harness.store.opening import is_database_error

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
COMPILATION_COLUMNS = ("source_sha256", "leaderboard", "architecture", "report", "created_at")
_CACHE_KIB = 32 * 1024
_PAGES_A_CHECKPOINT = 32 * 1024
"""Pages of indexes are written again and again: into the database itself only now and then."""


@dataclass(frozen=True)
class NewEvaluation:
    """`columns` are those of the tables, as `harness.store.codec` makes them, without ids and origin."""

    origin: str
    columns: Mapping[str, Any]
    cases: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class NewCompilation:
    """What compile mode said of the source of the submission that it comes with."""

    leaderboard: str
    architecture: str
    report: str
    created_at: str


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
    compilations: Sequence[NewCompilation] = ()


@dataclass
class Added:
    """How many of each were new; `known` counts submissions and calibrations given that added nothing at all."""

    submissions: int = 0
    evaluations: int = 0
    compilations: int = 0
    calibrations: int = 0
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
        else:
            db.run("SET synchronous_commit = off")  # for the same reason
            with suppress(*db.errors):  # before version 14, or built without it
                db.run("SET default_toast_compression = lz4")  # a quarter less work for the server than with pglz
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

    def add_calibrations(self, batch: Sequence[Calibration]) -> None:
        """Add what is new of a batch, in its order: a calibration is known by all that it says."""
        rows: dict[str, dict[tuple[Any, ...], None]] = {}  # by table, each once
        columns: dict[str, tuple[str, ...]] = {}
        for table, values in map(table_and_columns, batch):
            columns[table] = tuple(values)
            rows.setdefault(table, {})[tuple(values.values())] = None
        before = self.added.calibrations
        with self._db.transaction():
            for table, names in columns.items():
                moments = {row[names.index("created_at")] for row in rows[table]}
                there = set(self._db.look_up(table, "created_at", moments, ", ".join(names)))
                new = [row for row in rows[table] if row not in there]
                self._db.insert(table, names, new)
                self.added.calibrations += len(new)
        self.added.known += len(batch) - (self.added.calibrations - before)

    def settle(self) -> None:
        """Bring the standings of every class that got runs up to date, and have the server write everything down."""
        if self._db.postgres:
            self._db.run("SET synchronous_commit = on")
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
        changed: set[int] = set()  # indices of those that add something
        for index, each in enumerate(self._batch):
            if each.origin not in known and each.origin not in new:
                new[each.origin] = index
                changed.add(index)
            for evaluation in each.evaluations:
                if evaluation.origin not in known_evaluations and evaluation.origin not in evaluations:
                    evaluations[evaluation.origin] = evaluation, index
                    changed.add(index)
        if new:
            self._write_sources(list(new.values()))
        ids = {**known, **dict(zip(new, self._db.new_ids("submissions", len(new)), strict=True))} if new else known
        self._db.insert("submissions", SUBMISSION_COLUMNS, [self._submission(ids[o], i) for o, i in new.items()])
        self._write_evaluations(list(evaluations.values()), ids)
        changed |= self._write_remarks(ids)
        compiled = self._write_compilations()
        changed |= set(compiled)
        added.submissions += len(new)
        added.evaluations += len(evaluations)
        added.compilations += len(compiled)
        added.known += len(self._batch) - len(changed)

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

    def _write_remarks(self, ids: Mapping[str, int]) -> set[int]:
        """Write the notes and tags that are new; the indices of the submissions that had some."""
        notes: dict[tuple[Any, ...], int] = {}
        tags: dict[tuple[Any, ...], int] = {}
        for index, each in enumerate(self._batch):
            if not each.notes and not each.tags:
                continue
            of = {"submission_id": ids[each.origin]}
            has = {(row["created_at"], row["text"]) for row in self._db.rows(queries.NOTES, of)}
            notes |= {(of["submission_id"], *note): index for note in each.notes if note not in has}
            has_tags = {row["tag"] for row in self._db.rows(queries.TAGS, of)}
            tags |= {(of["submission_id"], tag): index for tag in each.tags if tag not in has_tags}
        self._db.insert("notes", ("submission_id", "created_at", "text"), list(notes))
        self._db.insert("tags", ("submission_id", "tag"), list(tags))
        return {*notes.values(), *tags.values()}

    def _write_compilations(self) -> list[int]:
        """Write what compile mode said of a source, in place of what it said before; the indices of the submissions
        that had something new, once for each new compilation."""
        given: dict[tuple[str, str, str], tuple[str, str, int]] = {}  # key -> report, moment, index: the newest
        for index, each in enumerate(self._batch):
            for compilation in each.compilations:
                key = self._shas[index], compilation.leaderboard, compilation.architecture
                if key not in given or given[key][1] < compilation.created_at:
                    given[key] = compilation.report, compilation.created_at, index
        if not given:
            return []
        shas = sorted({sha256 for sha256, _, _ in given})
        recorded = {row[0] for row in self._db.look_up("sources", "sha256", shas, "sha256")}
        there = {row[:3]: row[3] for row in self._db.look_up(
            "compilations", "source_sha256", shas, "source_sha256, leaderboard, architecture, created_at"
        )}  # fmt: skip
        new = {key: values for key, values in given.items() if key[0] in recorded and there.get(key, "") < values[1]}
        for key in new.keys() & there.keys():
            self._db.run(queries.DELETE_COMPILATION, dict(zip(COMPILATION_COLUMNS[:3], key, strict=True)))
        rows = [(*key, report, moment) for key, (report, moment, _) in new.items()]
        self._db.insert("compilations", COMPILATION_COLUMNS, rows)
        return [index for _, _, index in new.values()]

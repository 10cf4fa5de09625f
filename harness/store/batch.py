"""One batch of a bulk write on its way into the tables: what of it is new, and the rows of that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.store import queries, standings
from harness.store.database import Database
from harness.store.seen import Seen

if TYPE_CHECKING:
    from harness.store.bulk import Added, NewSubmission

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


class _Evaluation(NamedTuple):
    """An evaluation as far as its rows can be made before its id is known."""

    number: int  # of its submission in the batch
    origin: str
    values: tuple[Any, ...]
    cases: Sequence[Mapping[str, Any]]
    key: tuple[str, ...] | None  # of its rank class, if it has a score that takes part
    score: tuple[Any, ...]  # the moment, and the score with its interval


class Batch:
    """One batch. What can be done without the database is done when it is made: see `writer_thread`."""

    def __init__(self, db: Database, store_id: str, batch: Sequence[NewSubmission], seen: Seen) -> None:
        self._db = db
        self._own = f"{store_id}/"
        self._batch = batch
        self._shas = [hashlib.sha256(each.source_text.encode()).hexdigest() for each in batch]
        self._names: tuple[str, ...] = ()  # of the columns of evaluations
        self._evaluations = self._prepared()
        self._seen = seen
        self._again = {*seen.again({each.origin for each in batch}), *seen.again(set(self._shas))}

    def _prepared(self) -> list[_Evaluation]:
        found = [(index, each) for index, submission in enumerate(self._batch) for each in submission.evaluations]
        if not found:
            return []
        self._names = tuple(found[0][1].columns)
        values_of = itemgetter(*self._names)
        prepared = []
        for index, each in found:
            columns = each.columns
            key: tuple[str, ...] | None = None
            if columns["score_ns"] is not None and columns["status"] == "passed" and columns["mode"] == "leaderboard":
                key = standings.class_key_on(self._batch[index].leaderboard, columns)
            moment = columns["finished_at"] or columns["started_at"]
            score = moment, columns["score_ns"], columns["score_low_ns"], columns["score_high_ns"]
            prepared.append(_Evaluation(index, each.origin, values_of(columns), each.cases, key, score))
        return prepared

    def write(self, added: Added) -> None:
        """Write what is new of it, within the caller's transaction."""
        if not self._seen.is_all(self._db):
            self._again = {*(each.origin for each in self._batch), *self._shas}
        known = self._known()
        known_evaluations = self._evaluations_of(set(known.values()))
        new: dict[str, int] = {}  # origin -> index in the batch
        for index, each in enumerate(self._batch):
            if each.origin not in known and each.origin not in new:
                new[each.origin] = index
        evaluations: dict[str, _Evaluation] = {}
        for evaluation in self._evaluations:
            if evaluation.origin not in known_evaluations:
                evaluations.setdefault(evaluation.origin, evaluation)
        changed = {*new.values(), *(each.number for each in evaluations.values())}  # those that add something
        if new:
            self._write_sources(list(new.values()))
        ids = {**known, **dict(zip(new, self._db.new_ids("submissions", len(new)), strict=True))} if new else known
        self._db.insert("submissions", SUBMISSION_COLUMNS, [self._submission(ids[o], i) for o, i in new.items()])
        self._write_evaluations(list(evaluations.values()), ids)
        changed |= self._write_remarks(ids)
        compiled = self._write_compilations()
        changed |= set(compiled)
        self._seen.added(self._db)
        added.submissions += len(new)
        added.evaluations += len(evaluations)
        added.compilations += len(compiled)
        added.known += len(self._batch) - len(changed)

    def _known(self) -> dict[str, int]:
        """The ids of submissions that are there already, by origin: imported before, or made in this very store."""
        origins = {each.origin for each in self._batch}
        found = dict(self._db.look_up("submissions", "origin", origins & self._again, "origin, id"))
        ours = {int(origin.removeprefix(self._own)) for origin in origins if self._is_ours(origin)}
        rows = self._db.look_up("submissions", "id", ours, "id, origin")
        return found | {f"{self._own}{row[0]}": row[0] for row in rows if row[1] is None}

    def _evaluations_of(self, submission_ids: set[int]) -> set[str]:
        """The origins of the evaluations that these submissions have already."""
        rows = self._db.look_up("evaluations", "submission_id", submission_ids, "id, origin")
        return {origin or f"{self._own}{evaluation_id}" for evaluation_id, origin in rows}

    def _is_ours(self, origin: str) -> bool:
        if not origin.startswith(self._own):
            return False
        number = origin.removeprefix(self._own)
        return number.isascii() and number.isdigit() and len(number) < 10

    def _write_sources(self, indices: Sequence[int]) -> None:
        texts = {self._shas[index]: self._batch[index].source_text for index in indices}
        for (sha256,) in self._db.look_up("sources", "sha256", texts.keys() & self._again, "sha256"):
            del texts[sha256]
        self._db.insert("sources", ("sha256", "text"), sorted(texts.items()))

    def _submission(self, submission_id: int, index: int) -> tuple[Any, ...]:
        s = self._batch[index]
        sha256 = self._shas[index]
        return (submission_id, s.leaderboard, s.user, s.file_name, sha256, s.created_at, s.gpus, s.origin, s.published)

    def _write_evaluations(self, new: Sequence[_Evaluation], ids: Mapping[str, int]) -> None:
        if not new:
            return
        rows: list[tuple[Any, ...]] = []
        cases: list[tuple[Any, ...]] = []
        scored: list[tuple[tuple[str, ...], tuple[Any, ...]]] = []
        for each, evaluation_id in zip(new, self._db.new_ids("evaluations", len(new)), strict=True):
            submission = self._batch[each.number]
            submission_id = ids[submission.origin]
            rows.append((evaluation_id, submission_id, each.origin, *each.values))
            if each.cases:
                cases += [(evaluation_id, *case.values()) for case in each.cases]
            if each.key is not None:
                run = (submission.user, self._shas[each.number], evaluation_id, submission_id, *each.score)
                scored.append((each.key, run))
        self._db.insert("evaluations", ("id", "submission_id", "origin", *self._names), rows)
        if cases:
            first = next(each.cases[0] for each in new if each.cases)
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

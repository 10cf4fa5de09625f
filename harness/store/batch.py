"""One batch of a bulk write on its way into the tables: what of it is new, and the rows of that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.store import queries, standings, suspended
from harness.store.copies import Copies, runs_of
from harness.store.database import Database
from harness.store.seen import Seen

if TYPE_CHECKING:
    from harness.store.bulk import Added, NewSubmission

SUBMISSION_COLUMNS = (
    "leaderboard",
    "user_name",
    "file_name",
    "source_sha256",
    "created_at",
    "gpus",
    "origin",
    "published",
    "id",
)
OWN_COLUMNS = ("origin", "started_at", "finished_at", "score_ns", "published")
"""Of an evaluation, beside those that it shares with others and its ids."""
COMPILATION_COLUMNS = ("source_sha256", "leaderboard", "architecture", "report", "created_at")


class _Evaluation(NamedTuple):
    """An evaluation as far as its rows can be made before its id is known."""

    number: int  # of its submission in the batch
    values: tuple[Any, ...]  # of OWN_COLUMNS and those that it shares
    cases: Sequence[Mapping[str, Any]]
    key: tuple[str, ...] | None  # of its rank class, if it has a score that takes part
    score: tuple[Any, ...]  # its row in the class from the moment on: that, the score, and its interval


class _Shared(NamedTuple):
    """What the columns that evaluations on a board share make of their rows."""

    values: tuple[Any, ...]
    key: tuple[str, ...] | None  # of the rank class, if a score takes part
    interval: tuple[float | None, float | None]


class Batch:
    """One batch. What can be done without the database is done when it is made: see `writer_thread`."""

    def __init__(self, db: Database, store_id: str, batch: Sequence[NewSubmission], seen: Seen, copies: Copies) -> None:
        self._db = db
        self._batch = batch
        self._shas = [hashlib.sha256(each.source_text.encode()).hexdigest() for each in batch]
        self._submissions = [
            (s.leaderboard, s.user, s.file_name, sha256, s.created_at, s.gpus, s.origin, s.published)
            for s, sha256 in zip(batch, self._shas, strict=True)
        ]
        self._first: dict[str, int] = {}  # the index of the first submission of each origin
        for index, each in enumerate(batch):
            self._first.setdefault(each.origin, index)
        self._own = f"{store_id}/"
        self._ours = {int(origin.removeprefix(self._own)) for origin in self._first if self._is_ours(origin)}
        self._sources = dict(sorted(zip(self._shas, (each.source_text for each in batch), strict=True)))
        shared = next((each.shared for submission in batch for each in submission.evaluations), {})
        self._names = tuple(shared)  # of the columns that evaluations share
        self._evaluations = self._prepared()
        self._seen, self._copies = seen, copies
        self._again = set(seen.again(self._sources))
        self._origins_again = set(seen.origins_again(self._first))

    def _prepared(self) -> dict[str, _Evaluation]:
        """The first evaluation of each origin."""
        prepared: dict[str, _Evaluation] = {}
        made: dict[tuple[int, str], _Shared] = {}  # by the identity of what is shared, and the board
        for index, submission in enumerate(self._batch):
            for origin, shared, started_at, finished_at, score_ns, published, cases in submission.evaluations:
                of = id(shared), submission.leaderboard
                if of not in made:
                    made[of] = self._shared(submission.leaderboard, shared)
                values, key, interval = made[of]
                row = (origin, started_at, finished_at, score_ns, published, *values)
                score = (finished_at or started_at, score_ns, *interval)
                evaluation = _Evaluation(index, row, cases, None if score_ns is None else key, score)
                prepared.setdefault(origin, evaluation)
        return prepared

    def _shared(self, leaderboard: str, columns: Mapping[str, Any]) -> _Shared:
        key = standings.class_key_on(leaderboard, columns) if standings.takes_part(columns) else None
        return _Shared(itemgetter(*self._names)(columns), key, (columns["score_low_ns"], columns["score_high_ns"]))

    def write(self, added: Added) -> None:
        """Write what is new of it, within the caller's transaction."""
        if not self._seen.is_all(self._db):
            self._again, self._origins_again = set(self._sources), set(self._first)
        known = self._known()
        unknown = {origin: index for origin, index in self._first.items() if origin not in known}
        copies = self._copies.find(self._db, self._batch, self._shas, unknown)
        known |= copies
        known_evaluations = self._evaluations_of(set(known.values())) | self._runs_again(copies)
        new = {origin: index for origin, index in unknown.items() if origin not in copies}
        evaluations = [each for origin, each in self._evaluations.items() if origin not in known_evaluations]
        changed = {*new.values(), *(each.number for each in evaluations)}  # those that add something
        if new:
            self._write_sources({self._shas[index] for index in new.values()})
            new_ids = self._db.new_ids("submissions", len(new))
            rows = [(*self._submissions[index], id) for index, id in zip(new.values(), new_ids, strict=True)]
            self._db.insert("submissions", SUBMISSION_COLUMNS, rows)
            known.update(zip(new, new_ids, strict=True))
        self._write_evaluations(evaluations, known)
        changed |= self._write_remarks(known)
        compiled = self._write_compilations()
        changed |= set(compiled)
        self._seen.added(self._db)
        added.submissions += len(new)
        added.evaluations += len(evaluations)
        added.compilations += len(compiled)
        added.known += len(self._batch) - len(changed)

    def _known(self) -> dict[str, int]:
        """The ids of submissions that are there already, by origin: imported before, or made in this very store."""
        if self._origins_again and self._seen.exact:
            suspended.restore(self._db, suspended.OF_ORIGINS)
        found = dict(self._db.look_up("submissions", "origin", self._origins_again, "origin, id"))
        rows = self._db.look_up("submissions", "id", self._ours, "id, origin")
        return found | {f"{self._own}{row[0]}": row[0] for row in rows if row[1] is None}

    def _evaluations_of(self, submission_ids: set[int]) -> set[str]:
        """The origins of the evaluations that these submissions have already."""
        rows = self._db.look_up("evaluations", "submission_id", submission_ids, "id, origin")
        return {origin or f"{self._own}{evaluation_id}" for evaluation_id, origin in rows}

    def _runs_again(self, copies: Mapping[str, int]) -> set[str]:
        """The origins of published runs whose submission is there otherwise, with that run."""
        if not copies or not self._evaluations:
            return set()
        names = (*OWN_COLUMNS, *self._names)
        published, mode, device = (names.index(name) for name in ("published", "mode", "device_name"))
        there = runs_of(self._db, set(copies.values()))
        again = set()
        for origin, (number, values, *_) in self._evaluations.items():
            id = copies.get(self._batch[number].origin)
            if id is not None and values[published] is not None and (id, values[mode], values[device]) in there:
                again.add(origin)
        return again

    def _is_ours(self, origin: str) -> bool:
        if not origin.startswith(self._own):
            return False
        number = origin.removeprefix(self._own)
        return number.isascii() and number.isdigit() and len(number) < 10

    def _write_sources(self, shas: set[str]) -> None:
        known = {row[0] for row in self._db.look_up("sources", "sha256", shas & self._again, "sha256")}
        rows = [each for each in self._sources.items() if each[0] in shas and each[0] not in known]
        self._db.insert("sources", ("sha256", "text"), rows)

    def _write_evaluations(self, new: Sequence[_Evaluation], ids: Mapping[str, int]) -> None:
        if not new:
            return
        rows: list[tuple[Any, ...]] = []
        cases: list[tuple[Any, ...]] = []
        scored: list[tuple[tuple[str, ...], tuple[Any, ...]]] = []
        submissions = self._submissions
        for (number, values, cases_of, key, score), evaluation_id in zip(
            new, self._db.new_ids("evaluations", len(new)), strict=True
        ):
            _, user, _, sha256, _, _, origin, _ = submissions[number]
            submission_id = ids[origin]
            rows.append((*values, evaluation_id, submission_id))
            if cases_of:
                cases += [(evaluation_id, *case.values()) for case in cases_of]
            if key is not None:
                scored.append((key, (user, sha256, evaluation_id, submission_id, *score)))
        self._db.insert("evaluations", (*OWN_COLUMNS, *self._names, "id", "submission_id"), rows)
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

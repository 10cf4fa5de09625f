"""Writing the store, as the evaluation goes: every call is one committed transaction.

Killing the process at any moment, or losing the connection to a server, leaves a store that opens and holds every call
that returned.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from harness.errors import RequestError
from harness.evaluation.record import CaseResult, EvaluationHeader, EvaluationOutcome, Status
from harness.measure.scoring import benchmarks_digest, evaluation_score
from harness.store import calibrations, codec, queries, schema, standings, suspended
from harness.store.database import Database, connect
from harness.store.engine import engine_of, plain
from harness.store.location import Location, explain, location
from harness.store.migrate import upgrade
from harness.store.opening import check_version, is_database_error, mark_interrupted
from harness.store.process import this_process


class Store:
    """The writing side. Use `Store.open()`, and `close()` or a `with` block."""

    def __init__(self, engine: Engine, place: Location) -> None:
        self._engine = engine
        self._place = place

    @classmethod
    def open(cls, url: str | None = None) -> Store:
        """Open the store at `url` (default `location.database_url()`), made or migrated if need be.

        Raises MachineError, with nothing changed, when it can't be written, is damaged, or is of a newer version.
        """
        place = location(url)
        try:
            if place.path is not None:
                place.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if place.path is None or place.path.exists():
                _prepare_existing(place)
            engine = engine_of(place)
            with engine.begin() as connection:
                upgrade(connection)
                _complete(plain(connection))
        except Exception as error:
            if isinstance(error, OSError | SQLAlchemyError) or is_database_error(error):
                raise explain(error, place) from error
            raise
        return cls(engine, place)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def add_submission(
        self, leaderboard: str, user: str, file_name: str, source_text: str, gpus: Sequence[str] = ()
    ) -> int:
        """Record a submitted file; its id. The text is kept once, however often it is submitted."""
        try:
            sha256 = hashlib.sha256(source_text.encode("utf-8")).hexdigest()
        except UnicodeEncodeError as error:
            raise RequestError("the file is not UTF-8 text", where=file_name) from error
        if "\x00" in source_text:
            raise RequestError("the file holds a NUL character, which no source may", where=file_name)
        with self._transaction() as connection:
            known = connection.execute(select(schema.sources.c.sha256).where(schema.sources.c.sha256 == sha256))
            if known.first() is None:
                connection.execute(insert(schema.sources).values(sha256=sha256, text=source_text))
            return _insert(
                connection,
                schema.submissions,
                leaderboard=leaderboard,
                user_name=codec.storable_text(user),
                file_name=codec.storable_text(file_name),
                source_sha256=sha256,
                created_at=_now(),
                gpus=json.dumps(list(gpus)),
            )

    def begin_evaluation(self, submission_id: int, header: EvaluationHeader) -> int:
        """Record that this process begins an evaluation; its id. It is `running` until `finish_evaluation`.

        Raises RequestError when the submission is not there, or no longer.
        """
        process = this_process()
        running = EvaluationOutcome(status=Status.RUNNING, reason=None)
        with self._transaction() as connection:
            submission = select(schema.submissions.c.id).where(schema.submissions.c.id == submission_id)
            if connection.execute(submission).first() is None:
                raise RequestError(f"there is no submission {submission_id}")
            return _insert(
                connection,
                schema.evaluations,
                submission_id=submission_id,
                **codec.header_columns(header),
                **codec.outcome_columns(running),
                started_at=_now(),
                host=process.host,
                pid=process.pid,
                process_start=process.start,
            )

    def add_case(self, evaluation_id: int, case: CaseResult) -> None:
        """Record one finished case. Each (kind, index) of an evaluation is recorded once."""
        with self._transaction() as connection:
            connection.execute(
                insert(schema.case_results).values(evaluation_id=evaluation_id, **codec.case_columns(case))
            )

    def finish_evaluation(self, evaluation_id: int, outcome: EvaluationOutcome) -> None:
        """Record how it ended, with the score that `harness.measure` derives from the recorded cases, and what follows
        from that for the rankings."""
        evaluations, case_results = schema.evaluations, schema.case_results
        with self._transaction() as connection:
            row = connection.execute(select(evaluations).where(evaluations.c.id == evaluation_id)).mappings().one()
            cases = connection.execute(
                select(case_results).where(case_results.c.evaluation_id == evaluation_id).order_by(case_results.c.id)
            ).mappings()
            finished = [codec.case_of(dict(case)) for case in cases]
            score = evaluation_score(codec.header_of(dict(row)), outcome, finished)
            connection.execute(
                update(evaluations)
                .where(evaluations.c.id == evaluation_id)
                .values(
                    **codec.outcome_columns(outcome),
                    **codec.score_columns(score),
                    benchmarks=benchmarks_digest(finished),
                    finished_at=_now(),
                )
            )
            standings.record(plain(connection), evaluation_id)

    def keep_techniques(self, sha256: str, extractor_version: int, findings: str) -> None:
        """Record what an extractor read from a recorded source, as JSON text; nothing when that is there already."""
        values = {"source_sha256": sha256, "extractor_version": extractor_version}
        with self._transaction() as connection:
            if connection.execute(select(schema.techniques).filter_by(**values)).first() is None:
                connection.execute(insert(schema.techniques).values(**values, findings=findings))

    def keep_compilation(self, sha256: str, leaderboard: str, architecture: str, report: str) -> None:
        """Record what compile mode said of a recorded source, as JSON text, in place of what it said before."""
        key = {"source_sha256": sha256, "leaderboard": leaderboard, "architecture": architecture}
        values = {**key, "report": codec.storable_text(report), "created_at": _now()}
        with self._transaction() as connection:
            connection.execute(delete(schema.compilations).filter_by(**key))
            connection.execute(insert(schema.compilations).values(**values))

    def keep_calibration(self, calibration: calibrations.Calibration) -> int:
        """Record what was calibrated; its id. It counts from now on, in place of those made before it."""
        table, columns = calibrations.table_and_columns(calibration)
        with self._transaction() as connection:
            return _insert(connection, schema.metadata.tables[table], **columns)

    def add_note(self, submission_id: int, text: str) -> int:
        """Record a remark on a submission; its id."""
        with self._transaction() as connection:
            return _insert(
                connection,
                schema.notes,
                submission_id=submission_id,
                created_at=_now(),
                text=codec.storable_text(text),
            )

    def remove_note(self, submission_id: int, note_id: int) -> bool:
        """Forget a remark; whether there was one of that id on that submission."""
        with self._transaction() as connection:
            done = connection.execute(delete(schema.notes).filter_by(id=note_id, submission_id=submission_id))
            return done.rowcount > 0

    def change_tags(self, submission_id: int, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Give a submission these tags and take those away; a tag that it has or lacks already is no error."""
        tags = schema.tags
        with self._transaction() as connection:
            gone = {*add, *remove}
            connection.execute(delete(tags).where(tags.c.submission_id == submission_id, tags.c.tag.in_(gone)))
            for tag in dict.fromkeys(add):
                connection.execute(insert(tags).values(submission_id=submission_id, tag=codec.storable_text(tag)))

    def delete_submission(self, submission_id: int) -> None:
        """Remove a submission with its evaluations, cases, notes and tags, and its source where no other has it.

        Raises RequestError when there is none, or while an evaluation of it runs.
        """
        submissions, evaluations, cases = schema.submissions, schema.evaluations, schema.case_results
        with self._transaction() as connection:
            chosen = select(submissions.c.source_sha256).where(submissions.c.id == submission_id)
            sha256 = connection.execute(chosen).scalar_one_or_none()
            if sha256 is None:
                raise RequestError(f"there is no submission {submission_id}")
            of_it = evaluations.c.submission_id == submission_id
            running = select(evaluations.c.id).where(of_it, evaluations.c.status == Status.RUNNING.value)
            if connection.execute(running).first() is not None:
                raise RequestError(
                    f"submission {submission_id} is being evaluated",
                    hint="Delete it when the evaluation has ended, or stop that first.",
                )
            standings.forget(plain(connection), submission_id)
            connection.execute(delete(cases).where(cases.c.evaluation_id.in_(select(evaluations.c.id).where(of_it))))
            connection.execute(delete(evaluations).where(of_it))
            for table in (schema.notes, schema.tags):
                connection.execute(delete(table).where(table.c.submission_id == submission_id))
            connection.execute(delete(submissions).where(submissions.c.id == submission_id))
            if connection.execute(select(submissions.c.id).filter_by(source_sha256=sha256).limit(1)).first() is None:
                for table in (schema.techniques, schema.compilations):
                    connection.execute(delete(table).filter_by(source_sha256=sha256))
                connection.execute(delete(schema.sources).filter_by(sha256=sha256))

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except Exception as error:
            if isinstance(error, SQLAlchemyError) or is_database_error(error):
                raise explain(error, self._place) from error
            raise


def _prepare_existing(place: Location) -> None:
    """Refuse what is not ours before anything is written; mark what was cut off."""
    db = connect(place)
    try:
        if check_version(db, place):
            mark_interrupted(db)
    finally:
        db.close()


def _complete(db: Database) -> None:
    """What a new or migrated store lacks, its name and the tables that rankings are read from; and what a bulk write
    that was cut off left undone."""
    if db.value(queries.INFO, {"key": "store_id"}) is None:
        db.run(queries.SET_INFO, {"key": "store_id", "value": str(uuid.uuid4())})
    suspended.restore(db, suspended.INDEXES)
    if db.value(queries.INFO, {"key": "standings"}) != standings.VERSION:
        standings.rebuild(db)
    for class_id in standings.stale_classes(db):
        standings.refresh_class(db, class_id)
    suspended.restore(db)


def _insert(connection: Connection, table: Any, **values: Any) -> int:
    key = connection.execute(insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _now() -> str:
    return codec.time_text(datetime.now(UTC))

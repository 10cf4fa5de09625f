"""Writing many submissions at once, each with what belongs to it, so that writing them again adds nothing.

Every submission and evaluation comes with its origin: a text that names it wherever it goes. What the store holds
already, by its origin, because it was made here or as a copy of it (see `copies`), is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from harness.errors import MachineError
from harness.store import queries, standings, suspended
from harness.store.batch import Batch
from harness.store.calibrations import Calibration, table_and_columns
from harness.store.copies import Copies
from harness.store.database import Database, connect
from harness.store.location import explain, location
from harness.store.opening import is_database_error
from harness.store.seen import Seen
from harness.store.writer_thread import WriterThread

_CACHE_KIB = 64 * 1024
"""What is found by a digest or an origin comes in no order: most of the indexes by these stays in it."""
_PAGES_A_CHECKPOINT = 32 * 1024
"""Pages of indexes are written again and again: into the database itself only now and then."""


class NewEvaluation(NamedTuple):
    """`shared` are the columns of the table, as `harness.store.codec` makes them, but for ids and those that are named
    here; one object for all evaluations that agree in them is less work."""

    origin: str
    shared: Mapping[str, Any]
    started_at: str
    finished_at: str | None
    score_ns: float | None
    published: str | None = None
    cases: Sequence[Mapping[str, Any]] = ()


class NewCompilation(NamedTuple):
    """What compile mode said of the source of the submission that it comes with."""

    leaderboard: str
    architecture: str
    report: str
    created_at: str


class NewSubmission(NamedTuple):
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
def open_bulk(url: str | None = None, *, coming: int = 0) -> Iterator[BulkWriter]:
    """A writer to the store at `url` (default `location.database_url()`), made or migrated if need be; `coming` is how
    many submissions are to come, where that is known and many.

    Leaving the block brings the standings up to date. A block that is cut off leaves what was added, and standings
    that the next writer mends. Raises MachineError when the store can't be written, and when all is written and done,
    where the database lacks indexes that could not be put back.
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
            db.run("SET statement_timeout = 0")  # what a large import ends with takes seconds
            with suppress(*db.errors):  # before version 14, or built without it
                db.run("SET default_toast_compression = lz4")  # a quarter less work for the server than with pglz
        writer = BulkWriter(db, coming)
        try:
            yield writer
        finally:
            lacking = writer.settle()
        if lacking:  # an error of the block itself comes first: the next writer tells of these
            raise MachineError(
                "everything was added, but the database lacks indexes or keys that could not be put back: "
                + "; ".join(f"{name} ({why})" for name, why in lacking.items()),
                where=place.shown,
                hint="The next command that writes tries again. Run one, such as this import once more, as the owner of"
                " the tables, who needs the right CREATE on their schema.",
            )
    except Exception as error:
        if is_database_error(error):
            raise explain(error, place) from error
        raise
    finally:
        db.close()


class BulkWriter:
    """Adds batches, some seconds of them in a transaction, while the caller makes the next: an error of one comes with
    a later call. `added` is what is written for good: all that was given when `settle` returns, and when it raises,
    what came before the transaction that failed."""

    def __init__(self, db: Database, coming: int = 0) -> None:
        self._db = db
        self._store_id = str(db.value(queries.INFO, {"key": "store_id"}))
        self._seen = Seen()
        self._copies = Copies()
        self._coming = coming if db.postgres else 0
        self._thread = WriterThread(db, self._count)
        self._adding = Added()  # by the transaction under way
        self.added = Added()

    def add(self, batch: Sequence[NewSubmission]) -> None:
        """Add what is new of a batch, in its order."""
        if self._coming:
            self._do_without(batch)
        self._thread.do(partial(Batch(self._db, self._store_id, batch, self._seen, self._copies).write, self._adding))

    def _count(self) -> None:
        """Of a transaction that is committed."""
        for name, number in vars(self._adding).items():
            setattr(self.added, name, getattr(self.added, name) + number)
            setattr(self._adding, name, 0)

    def _do_without(self, batch: Sequence[NewSubmission]) -> None:
        """Suspend what a large write does without; not where most of its first batch is known: so may the rest be."""
        coming, self._coming = self._coming, 0
        origins = {each.origin for each in batch}
        known = self._db.look_up("submissions", "origin", origins, "origin")
        if 2 * len(known) <= len(origins) and suspended.suspend(self._db, coming):
            with self._db.transaction():  # not that of the drops, for which readers wait
                self._seen = Seen(self._db.last_id("submissions") + coming)
                self._seen.read(self._db)

    def add_calibrations(self, batch: Sequence[Calibration]) -> None:
        """Add what is new of a batch, in its order: a calibration is known by all that it says."""
        self._thread.do(partial(self._add_calibrations, batch))

    def _add_calibrations(self, batch: Sequence[Calibration]) -> None:
        rows: dict[str, dict[tuple[Any, ...], None]] = {}  # by table, each once
        columns: dict[str, tuple[str, ...]] = {}
        for table, values in map(table_and_columns, batch):
            columns[table] = tuple(values)
            rows.setdefault(table, {})[tuple(values.values())] = None
        before = self._adding.calibrations
        for table, names in columns.items():
            moments = {row[names.index("created_at")] for row in rows[table]}
            there = set(self._db.look_up(table, "created_at", moments, ", ".join(names)))
            new = [row for row in rows[table] if row not in there]
            self._db.insert(table, names, new)
            self._adding.calibrations += len(new)
        self._adding.known += len(batch) - (self._adding.calibrations - before)

    def settle(self) -> dict[str, str]:
        """Wait for what was added, bring the standings of every class that got runs up to date, and have the server
        write everything down. Returns the indexes and keys that the database lacks nevertheless, and why."""
        self._thread.finish()
        lacking: dict[str, str] = {}
        if self._db.postgres:
            with self._db.transaction():
                lacking = suspended.restore(self._db)
        for class_id in standings.stale_classes(self._db):
            with self._db.transaction():
                standings.refresh_class(self._db, class_id)
        if self._db.postgres:
            self._db.run("SET synchronous_commit = on")
            self._db.value("SELECT txid_current()")  # a transaction that is written down, and all before it
            if self.added.submissions:
                self._db.run(queries.ANALYZE)
        return lacking

"""Foreign keys that a large bulk write on PostgreSQL does without: the server checks them row by row, a third of its
work for an import. When it ends they are put back, which checks all rows at once; after one that was cut off, whoever
opens the store for writing next does that.

Meanwhile nothing breaks them: who adds a row looks in the same transaction, under the writers' lock, that what it
refers to is there. On SQLite a bulk write has no such checks to do without: its connection never asks for them.
"""

from __future__ import annotations

from contextlib import suppress

from harness.store.database import Database

_LONGEST_WAIT_MS = 200
"""For readers to be done, since others queue behind who waits for them. Where it is not enough, the checks stay."""
_KEYS = (
    ("submissions", "fk_submissions_source_sha256_sources", "(source_sha256) REFERENCES sources (sha256)"),
    ("evaluations", "fk_evaluations_submission_id_submissions", "(submission_id) REFERENCES submissions (id)"),
)
_THERE = "SELECT conname FROM pg_constraint WHERE conrelid IN ('submissions'::regclass, 'evaluations'::regclass)"


def suspend(db: Database) -> None:
    """Do without them, where this user may and nobody is in the way."""
    if db.postgres:
        with suppress(*db.errors), db.connection.transaction():
            db.run(f"SET LOCAL lock_timeout = {_LONGEST_WAIT_MS}")
            for table, name, _ in _KEYS:
                db.run(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}")


def restore(db: Database) -> None:
    """Put back those that are missing, within the caller's transaction. Readers need not wait; who may not do it leaves
    it to the next."""
    if db.postgres:
        there = {row[0] for row in db.tuples(_THERE)}
        for table, name, key in _KEYS:
            if name not in there:
                with suppress(*db.errors), db.connection.transaction():
                    db.run(f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY {key}")

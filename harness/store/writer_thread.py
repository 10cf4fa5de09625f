"""A thread that writes while the caller prepares what is written next: the database works without Python's lock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from queue import Empty, Queue
from threading import Thread

from harness.store.database import Database

Job = Callable[[], None]

LONGEST_TRANSACTION_S = 5.0
"""Other writers wait for so long, and give up after `location.BUSY_TIMEOUT_S`. A page of an index that many rows change
is written once a transaction, so that long ones are less work."""
_SWITCH_S = 0.0001
"""How soon the thread goes on when the database has answered and the caller computes; Python's own 5 ms are as long
as the answer took."""

_PAUSE_S = 0.11
"""Between two transactions on SQLite: whoever waits for its lock looks every 0.1 s whether it is free, and would never
find it so. PostgreSQL has a queue."""


class WriterThread:
    """Runs jobs in order, several in one transaction; the caller is one job ahead.

    From the first job until `finish` returns, the database is the thread's. `committed` is called after every
    transaction, none of whose jobs is undone from then on.
    """

    def __init__(self, db: Database, committed: Job) -> None:
        self._db = db
        self._committed = committed
        self._jobs: Queue[Job | None] = Queue(maxsize=1)
        self._error: BaseException | None = None
        self._finished = False
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        self._thread = Thread(target=self._run, name="bulk writer", daemon=True)
        self._thread.start()

    def do(self, job: Job) -> None:
        """Run it when those before it are done. Raises what one of them raised; none runs after that."""
        if self._error is None:
            self._jobs.put(job)
        self._raise()

    def finish(self) -> None:
        """Wait until all is committed. Raises what a job raised: then its transaction was rolled back."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
        sys.setswitchinterval(self._switch_s)
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._finished and (job := self._jobs.get()) is not None:
                with self._db.transaction():
                    job()
                    for following in self._until(time.monotonic() + LONGEST_TRANSACTION_S):
                        following()
                self._committed()
                if not self._db.postgres and not self._finished:
                    time.sleep(_PAUSE_S)
        except BaseException as error:
            self._error = error
            while not self._finished and self._jobs.get() is not None:
                pass  # the caller learns of it when it brings the next

    def _until(self, end: float) -> Iterator[Job]:
        """The jobs that come until then."""
        while (left_s := end - time.monotonic()) > 0:
            try:
                job = self._jobs.get(timeout=left_s)
            except Empty:
                return
            if job is None:
                self._finished = True
                return
            yield job

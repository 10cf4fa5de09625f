"""A worker of a comparison, and what its outputs are held against."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from harness.boards.board import Board
from harness.boards.reference import Reference
from harness.comparing.record import Fault, Name
from harness.evaluation.clocks import TimedCall
from harness.evaluation.contract import OutputForm
from harness.evaluation.host import Host
from harness.evaluation.session import Session
from harness.evaluation.workers import WorkerFault
from harness.wire.packing import Packed


class Failed(Exception):
    """A contestant's fault, with whose it was."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason.message)
        self.fault = fault


class Contestant:
    """One submission in a worker that lives through all cases; a dead one is replaced before the next case."""

    held_bytes = 0
    """How much device memory the worker took so far, where that was looked at."""

    def __init__(self, name: Name, phase: str, host: Host, *, cuda: bool, timeout_s: float, choice: random.Random):
        self.name, self.phase, self.host, self.cuda = name, phase, host, cuda
        self._timeout_s, self._choice = timeout_s, choice
        self._session: Session | None = None
        self._loaded = False
        self._form: OutputForm | None = None
        self._unloadable: Failed | None = None

    @property
    def alive(self) -> bool:
        return self._session is not None and self._session.alive

    def refuse_unloadable(self) -> None:
        """Raises Failed where the file did not load before: that is not tried again."""
        if self._unloadable is not None:
            raise self._unloadable

    def take(self, session: Session) -> None:
        """Have this worker from now on."""
        self.close()
        self._session, self._loaded = session, False

    def load(self) -> None:
        """Have the submission loaded. Raises Failed."""
        if self._loaded:
            return
        try:
            self._guard(lambda session: session.import_submission(self._timeout_s))
            self._loaded = True
        except Failed as failed:
            self._unloadable = failed
            raise

    def first_call(self, packed: Packed, boards_answer: Callable[[], Any]) -> Any:
        """The untimed call in which a shape is compiled and tuned; its output. Raises Failed."""
        self._form, output = self._guard(
            lambda session: session.call(packed, self._choice, self._timeout_s, boards_answer)
        )
        return output

    def timed(self, packed: Packed) -> tuple[TimedCall, Any]:
        """One timed call and its output. Raises Failed."""
        form = self._form
        assert form is not None
        reading: tuple[TimedCall, Any] = self._guard(
            lambda session: session.timed(packed, form, self._choice, self._timeout_s)
        )
        return reading

    def check(self, judge: Callable[[], str]) -> None:
        """Judge an output of this contestant. Raises Failed."""
        self._guard(lambda session: judge())

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _guard(self, action: Callable[[Session], Any]) -> Any:
        assert self._session is not None
        try:
            return action(self._session)
        except WorkerFault as fault:
            if fault.fatal:
                self._session.worker.kill()
            raise Failed(Fault(self.name, fault.status, fault.reason, fault.traceback)) from None


class Judges:
    """What every output of one case is held against: the board's checks, in full for the first calls, and by the
    cheaper spot check, where the board has one, for the others."""

    def __init__(self, board: Board, reference: Reference) -> None:
        self._board, self._reference = board, reference

    def judge(self, data: Any, output: Any, *, seed: int, fully: bool) -> str:
        from harness.evaluation.judging import judge

        reference = self._reference
        if reference.has_spot_check and not fully:
            return judge(lambda: reference.spot_check(data, output, seed))
        return judge(lambda: reference.check(data, output))

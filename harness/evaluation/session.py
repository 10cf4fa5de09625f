"""A worker with the submission loaded, its shared slots and its clock: what a phase calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.boards.answers import map_tensors
from harness.boards.board import Board
from harness.errors import MachineError
from harness.evaluation.capture import Capture
from harness.evaluation.clocks import Clock, DeviceClock, Gated, SocketClock, TimedCall
from harness.evaluation.contract import OutputForm, broken, form_of, may_write, rebuild
from harness.evaluation.host import CODE, Host, submission_file, support_files
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.slots import Placed, Slots
from harness.evaluation.withheld import Withheld
from harness.evaluation.workers import WorkerFault, WorkerProcess
from harness.wire.packing import Packed, where


class Session:
    """One worker in use, made by `host.start` or `started` before. `close()` ends it."""

    def __init__(
        self,
        host: Host,
        phase: str,
        *,
        cuda: bool,
        with_submission: bool = True,
        started: tuple[WorkerProcess, Path] | None = None,
    ) -> None:
        self._board: Board = host.board
        self.worker: WorkerProcess
        self.folder: Path
        self.worker, self.folder = started or host.start(phase, with_submission=with_submission)
        self.cuda = cuda
        try:
            self.clock: Clock = DeviceClock(self.worker) if cuda else SocketClock(self.worker)
            self.slots = Slots(self.worker)
            self._capture = Capture(cuda=cuda)
            self._withheld = Withheld() if cuda else None
        except WorkerFault as fault:
            self.worker.kill()
            said = self.worker.log_tail()
            text = f"{fault.reason.message}; its last words: {said}" if said else fault.reason.message
            raise WorkerFault(fault.status, replace(fault.reason, message=text)) from None
        except BaseException:
            self.worker.kill()
            raise

    @property
    def alive(self) -> bool:
        return self.worker.alive

    def close(self) -> None:
        self.worker.kill()
        self.clock.close()
        self.slots.close()

    def import_submission(self, timeout_s: float) -> None:
        """Load the file. Raises WorkerFault; an exception while importing is `import_failed`."""
        support = [name.removesuffix(".py") for name in support_files(self._board) if name.endswith(".py")]
        code = str(self.folder / CODE)
        request = {"op": "import", "folder": code, "file": submission_file(self._board), "support": support}
        try:
            self.worker.ask(request, timeout_s=timeout_s)
        except WorkerFault as fault:
            if fault.reason.code is ReasonCode.EXCEPTION:
                reason = Reason(ReasonCode.IMPORT_FAILED, f"the file cannot be imported: {fault.reason.message}")
                raise WorkerFault(Status.FAILED, reason, fault.traceback) from None
            raise

    def call(
        self,
        packed: Packed,
        choice: random.Random,
        timeout_s: float,
        boards_answer: Callable[[], Any] = lambda: None,
    ) -> tuple[OutputForm, Any]:
        """One untimed call on a fresh input: the output's form, and its values from a snapshot.

        `boards_answer` gives the board's own answer, and is asked when the output is of classes, which come from there.
        """
        placed = self.slots.place(packed, choice)
        for device in ("cpu", "cuda"):
            self.slots.reveal(placed, device)
        self._settle()
        answer = self.worker.ask({"op": "call", **placed.message()}, timeout_s=timeout_s)
        form = form_of(answer, {spec.device for spec in packed.specs}, self._board.settings)
        places = self.slots.output_places(form.sizes, form.devices)
        self._settle()
        self.worker.ask({"op": "collect", "placed": places}, timeout_s=timeout_s)
        if form.names_classes:
            form = replace(form, answer=map_tensors(lambda tensor: tensor.to("meta"), boards_answer()))
        output = rebuild(form, self.slots.snapshot(places), self._board.settings)
        self._check_inputs(placed)
        self.worker.watch()
        return form, output

    def timed(self, packed: Packed, form: OutputForm, choice: random.Random, timeout_s: float) -> tuple[TimedCall, Any]:
        """One timed call on a fresh input, whose output must have `form`. What its time is charged for a late output
        is in the reading's `wall_ns`."""
        placed = self.slots.place(packed, choice)
        places = self.slots.output_places(form.sizes, form.devices)
        if self.cuda:  # the call runs ahead of the gate on the host, so host tensors must be there already
            self.slots.reveal(placed, "cpu")
        if self._withheld is not None:
            self._withheld.aim(self.slots.pairs(placed, "cuda"), choice)
        self._settle()

        def reveal() -> None:
            if self._withheld is None:
                self.slots.reveal(placed, "cpu")
            else:
                self._withheld.write()

        def complete() -> None:
            if self._withheld is not None:
                self._withheld.give()

        request = {"op": "timed", **placed.message(), "collect": places}
        gated = Gated(reveal, complete, lambda: self.slots.snapshot(places))
        reading, storages = self.clock.timed(request, gated, timeout_s)
        charged = replace(reading, wall_ns=self._capture.charged_ns(reading, storages))
        now = form_of(reading.answer, set(form.devices), self._board.settings)
        if not now.same_as(form):
            raise broken("the output's dtype or shape differs from the one returned before for the same shape")
        output = rebuild(replace(now, answer=form.answer), storages, self._board.settings)
        self._check_inputs(placed)
        self.worker.watch()  # which takes too long for the clock's own spin
        return charged, output

    def noop(self, timeout_s: float = 30.0) -> int:
        """The clock's own cost: a call of nothing, in ns."""
        return self.clock.timed({"op": "noop"}, Gated(), timeout_s)[0].wall_ns

    def noop_with_output(
        self, sizes: Sequence[int], devices: Sequence[str], *, written: bool = False, timeout_s: float = 30.0
    ) -> TimedCall:
        """A call of nothing, or one that writes its output, after which that is taken to its place."""
        request = {"op": "noop", "collect": self.slots.output_places(sizes, devices), "written": written}
        self._settle()
        return self.clock.timed(request, Gated(), timeout_s)[0]

    def _check_inputs(self, placed: Placed) -> None:
        changed = self.slots.changed(placed, lambda path: may_write(self._board.settings, path))
        if changed is not None:
            text = f"the call changed its input ({where(changed)}), which this board does not allow"
            raise WorkerFault(Status.FAILED, Reason(ReasonCode.INPUT_CHANGED, text), fatal=False)

    def _settle(self) -> None:
        """Wait for our own device work, so that none of it runs beside the call."""
        if self.cuda:
            import torch

            torch.cuda.synchronize()


def open_session(host: Host, phase: str, *, cuda: bool, with_submission: bool = True) -> Session:
    """A session whose worker has loaded nothing yet. One that ends before that is tried again once, since the
    submission has no part in it; raises MachineError when the second ends too."""
    return open_sessions(host, phase, 1, cuda=cuda, with_submission=with_submission)[0]


def open_sessions(
    host: Host, phase: str, count: int, *, cuda: bool, with_submission: bool = True, sharers: int = 1
) -> list[Session]:
    """So many of `open_session`, of `sharers` that live together, whose workers get ready side by side: a CUDA context
    alone takes half a second."""
    # Started from this thread: a worker may end with the thread that started it.
    started: list[tuple[WorkerProcess, Path]] = []

    def session(each: tuple[WorkerProcess, Path]) -> Session | None:
        try:
            return Session(host, phase, cuda=cuda, with_submission=with_submission, started=each)
        except WorkerFault:
            return None

    try:
        for _ in range(count):
            started.append(host.start(phase, with_submission=with_submission, sharers=sharers))
        if count == 1:
            sessions = [session(started[0])]
        else:
            with ThreadPoolExecutor(count) as pool:
                sessions = list(pool.map(session, started))
        for i, each in enumerate(sessions):
            if each is None:
                again = host.start(phase, with_submission=with_submission, sharers=sharers)
                sessions[i] = Session(host, phase, cuda=cuda, with_submission=with_submission, started=again)
        return [each for each in sessions if each is not None]
    except BaseException as error:
        for worker, _ in started:
            worker.kill()
        if isinstance(error, WorkerFault):
            raise died_unloaded(error) from None
        raise


def died_unloaded(fault: WorkerFault) -> MachineError:
    """What to tell of a worker that ended with no submission in it."""
    return MachineError(
        f"a worker ended before it had anything to do: {fault.reason.message}",
        hint="Is the machine out of memory? `harness doctor` says more.",
    )

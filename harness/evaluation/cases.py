"""Running one case: its inputs, its calls, its checks, its record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.boards.board import Board, Spec, format_spec
from harness.boards.reference import BoardCodeError, Reference
from harness.evaluation.bounds import below_floor, with_bounds
from harness.evaluation.capture import CPU_MEDIAN_ALLOWANCE, CUDA_MEDIAN_ALLOWANCE, charged_for_lag_ns, lag_ns
from harness.evaluation.clocks import TimedCall
from harness.evaluation.contract import OutputForm, broken
from harness.evaluation.expected import Expected
from harness.evaluation.judging import fully_checked, judge
from harness.evaluation.plan import PlannedCase
from harness.evaluation.record import CaseKind, CaseResult, Reason, ReasonCode, Samples, Status, StopRule
from harness.evaluation.room import Room
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session
from harness.evaluation.twin import Twin
from harness.evaluation.workers import WorkerFault
from harness.measure.events import events_note
from harness.measure.speed_of_light import Peaks
from harness.measure.statistics import case_figure, case_times_ns
from harness.measure.stopping import LOOKS, StoppingRule
from harness.wire.packing import PackingError, pack

TIMED_WARMUPS = 2
"""Of a lone worker; each of several has one."""
SLOW_FIRST_CALL_S = 3.0
LONG_CALL_NS = 100_000_000
"""A case is measured in one process where the first call takes longer than the one, because something compiles in it
and nothing was kept of the build, or a call longer than the other: beside that a launch costs nothing, and several
processes much time and memory. Which one is drawn, so that none that finds itself quick can choose to be it."""
JOINING_S = 10.0
"""No further worker joins when the first calls of those that did have taken so long."""
TIMED_CALL_SLOWDOWN = 50.0
TIMED_CALL_LEAST_S = 10.0


@dataclass(frozen=True)
class CaseContext:
    """What every case of an evaluation shares."""

    board: Board
    reference: Reference
    expected: Expected
    seeds: Seeds
    peaks: Peaks | None
    stopping: StoppingRule
    call_timeout_s: float
    deadline: float
    """Of the phase, on the monotonic clock."""
    twins: Sequence[Twin]
    """What the clock's own cost is measured on, by turns; none where no benchmark runs."""

    @property
    def timeout_s(self) -> float:
        """How long a call may take from now on."""
        return min(self.call_timeout_s, max(1.0, self.deadline - time.monotonic()))


def run_case(
    context: CaseContext, crew: Sequence[Session], planned: PlannedCase, attempt: int = 0
) -> tuple[CaseResult, Session]:
    """Run one case in these workers, a test in the first of them: its record, which keeps what was measured before a
    failure, and the worker that was last in use. Another attempt has other inputs.

    Never raises for what the submission does; the board's faults and the user's interrupt pass through. Look
    afterwards which workers are alive.
    """
    started = time.perf_counter()
    run: CaseRun = (Test if planned.kind is CaseKind.TEST else Benchmark)(context, crew, planned, attempt)
    try:
        run.run()
    except WorkerFault as fault:
        if fault.fatal:
            run.session.worker.kill()
        run.result = replace(run.result, status=fault.status, reason=fault.reason, traceback=fault.traceback)
    except torch.OutOfMemoryError as error:
        run.result = replace(run.result, status=Status.ERROR, reason=own_out_of_memory(error, planned.spec))
    finally:
        if run.session.cuda:
            torch.cuda.empty_cache()
    return replace(run.result, seconds=time.perf_counter() - started), run.session


class CaseRun:
    """One case being run; `result` is its record so far, `session` the worker in use."""

    def __init__(self, context: CaseContext, crew: Sequence[Session], planned: PlannedCase, attempt: int) -> None:
        self.context, self.crew, self.planned, self.attempt = context, list(crew), planned, attempt
        self.session = self.crew[0]
        self.result = CaseResult(planned.kind, planned.index, planned.spec, Status.PASSED)
        self.choice = context.seeds.random("place", planned.kind, planned.index, attempt)

    def run(self) -> None:
        raise NotImplementedError

    def first_call(self, data: Any) -> tuple[OutputForm, Any]:
        """The untimed call: its output's form, and the output."""
        context = self.context
        packed = pack_input(data, context.board)
        return self.session.call(packed, self.choice, context.timeout_s, lambda: context.expected.answer(data))


def own_out_of_memory(error: BaseException, spec: Spec) -> Reason:
    first = str(error).splitlines()[0] if str(error) else "out of memory"
    text = f"the harness itself ran out of memory making or checking the input of ({format_spec(spec)}): {first}"
    return Reason(ReasonCode.OUT_OF_MEMORY, text)


class Test(CaseRun):
    """One call on the case's own seed, checked in full."""

    def run(self) -> None:
        context = self.context
        data = context.reference.generate(self.planned.spec)
        _, output = self.first_call(data)
        message = judge(lambda: context.reference.check(data, output))
        context.expected.check_form(data, output)
        self.result = replace(self.result, notes=(message,) if message else ())


def pack_input(data: Any, board: Board) -> Any:
    """`pack` for a board's input, whose failure is the board's fault."""
    try:
        return pack(data)
    except PackingError as error:
        raise BoardCodeError(
            f"generate_input of board '{board.name}' returns what cannot be carried to the worker: {error}",
            hint="Boards whose inputs are not plain data run by the public protocol only: --protocol popcorn.",
        ) from error


class Benchmark(CaseRun):
    """A first untimed call in each worker, then timed calls by turns on inputs never seen before, every output
    checked."""

    def __init__(self, context: CaseContext, crew: Sequence[Session], planned: PlannedCase, attempt: int) -> None:
        super().__init__(context, crew, planned, attempt)
        self._fully_checked = fully_checked(context.seeds.random("full", planned.index, attempt))
        self._wall: list[int] = []
        self._lags: list[int] = []
        self._overhead: list[int] = []
        self._twin_lags: list[int] = []
        self._events: list[int] = []
        self._held = 0
        self._left_out = 0

    def run(self) -> None:
        context = self.context
        self._room = Room(cuda=self.session.cuda)
        data = context.reference.generate(self.planned.spec, self._seed("first"))
        self.result = with_bounds(self.result, context.board, context.reference, context.peaks, data)
        started = time.perf_counter()
        form, output = self.first_call(data)
        first_call_s = time.perf_counter() - started
        note = self._check_fully(data, output)
        context.expected.check_form(data, output)
        output = None  # its memory is needed for the next
        timeout_s = min(context.timeout_s, max(TIMED_CALL_LEAST_S, TIMED_CALL_SLOWDOWN * first_call_s))
        began = time.perf_counter()
        data = self._warm_up(data, form, timeout_s, first_call_s)
        stop = self._sample(data, form, timeout_s, began)
        self.result = below_floor(replace(self.result, stop_rule=stop, notes=self._notes(note)))

    def _warm_up(self, data: Any, form: OutputForm, timeout_s: float, first_call_s: float) -> Any:
        """Calls that do not count, and who takes part; the input of the last."""
        call = -TIMED_WARMUPS - len(self.crew)
        data, reading = self._timed(data, form, timeout_s, call)
        self._room.first_is_in()
        first, joining = self.crew[0], self.crew[1:]
        if first_call_s > SLOW_FIRST_CALL_S or reading.wall_ns > LONG_CALL_NS:
            drawn = self.context.seeds.random("alone", self.planned.index, self.attempt).choice(self.crew)
            joining = [drawn] if drawn is not first else []
            self.crew = []
        else:
            self.crew = [first]
        until = time.monotonic() + JOINING_S
        for i, session in enumerate(joining):
            if self.crew and time.monotonic() > until:
                break
            if self.crew and not self._room.for_another():
                self._left_out = len(joining) - i
                break
            call += 1
            self._join(session, data, form, call)
            data, _ = self._timed(data, form, timeout_s, call)
            self.crew.append(session)
        self.crew = self.crew or [first]
        if len(self.crew) < TIMED_WARMUPS:
            self.session = self.crew[0]
            data, _ = self._timed(data, form, timeout_s, -1)
        return data

    def _join(self, session: Session, data: Any, form: OutputForm, call: int) -> None:
        """The first call of a further worker, whose output must have the form of the first worker's."""
        self.session = session
        other, output = self.first_call(data)
        if not other.same_as(form):
            raise broken("the output's dtype or shape differs from the one returned before for the same shape")
        self._check(data, output, call)

    def _seed(self, *use: str | int) -> int:
        again = (f"attempt {self.attempt}",) if self.attempt else ()
        return self.context.seeds.derive(self.planned.kind, self.planned.index, *use, *again)

    def _timed(self, data: Any, form: OutputForm, timeout_s: float, call: int) -> tuple[Any, TimedCall]:
        """A timed call on a fresh input, its output checked; that input and the reading."""
        data = self._fresh(data, call)
        packed = pack_input(data, self.context.board)
        reading, output = self.session.timed(packed, form, self.choice, timeout_s)
        self._check(data, output, call)
        return data, reading

    def _sample(self, data: Any, form: OutputForm, timeout_s: float, began: float) -> StopRule:
        for call in range(LOOKS[-1]):
            self.session = self.crew[call % len(self.crew)]
            data, reading = self._timed(data, form, timeout_s, call)
            times = case_times_ns(self._keep(reading, form))
            stop = self.context.stopping.decide(times, time.perf_counter() - began)
            if stop is not None:
                return stop
        raise AssertionError("the stopping rule ends at its largest count")

    def _keep(self, reading: TimedCall, form: OutputForm) -> Samples:
        """Take a reading in; the case's samples with it."""
        self._wall.append(reading.wall_ns)
        overhead_ns = 0
        if self.context.twins:
            twin = self.context.twins[len(self._overhead) % len(self.context.twins)]
            overhead_ns, twin_lag_ns = twin.costs_ns(form)
            # Where a call synchronises, its host only then queues the copy: `Capture` alone bounds that lag.
            if not (self.session.cuda and reading.held):
                self._lags.append(lag_ns(reading))
                self._twin_lags.append(twin_lag_ns)
        self._overhead.append(overhead_ns)
        self._events.append(reading.events_ns)
        self._held += reading.held
        samples = self._samples()
        self.result = replace(self.result, samples=samples)
        return samples

    def _fresh(self, data: Any, call: int) -> Any:
        return self.context.reference.fresh(data, self.planned.spec, self._seed("call", call))

    def _check(self, data: Any, output: Any, call: int) -> None:
        reference = self.context.reference
        if reference.has_spot_check and call not in self._fully_checked:
            seed = self._seed("spot", call)
            judge(lambda: reference.spot_check(data, output, seed))
        else:
            self._check_fully(data, output)

    def _check_fully(self, data: Any, output: Any) -> str:
        return judge(lambda: self.context.reference.check(data, output))

    def _samples(self) -> Samples:
        events = tuple(self._events) if any(self._events) else ()
        allowance = CUDA_MEDIAN_ALLOWANCE if self.session.cuda else CPU_MEDIAN_ALLOWANCE
        charged_ns = charged_for_lag_ns(self._lags, self._twin_lags, allowance)
        wall = tuple(wall_ns + charged_ns for wall_ns in self._wall)
        return Samples(wall, tuple(self._overhead), events, len(self.crew))

    def _notes(self, note: str) -> tuple[str, ...]:
        notes = [note] if note else []
        if self.context.reference.has_spot_check:
            done = [call for call in self._fully_checked if call < len(self._wall)]
            notes.append(f"every timed output spot-checked, {len(done)} of them in full")
        if case_figure(self.result.samples) is None:
            notes.append("the calls took no longer than a call of nothing: there is no figure")
        if self._left_out:
            notes.append(f"measured in {len(self.crew)} processes: there is no memory for {self._left_out} more")
        if self._held:
            notes.append(f"{self._held} of {len(self._wall)} calls synchronised inside; their host time counts")
        if disagreement := events_note(self.result.samples):
            notes.append(disagreement)
        return tuple(notes)

"""Running one case: its inputs, its calls, its checks, its record."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from harness.boards.board import Board, Spec, Work, format_spec
from harness.boards.reference import BoardCodeError, Reference
from harness.evaluation.capture import CPU_MEDIAN_ALLOWANCE, CUDA_MEDIAN_ALLOWANCE, charged_for_lag_ns, lag_ns
from harness.evaluation.clocks import TimedCall
from harness.evaluation.contract import OutputForm
from harness.evaluation.expected import Expected
from harness.evaluation.plan import PlannedCase
from harness.evaluation.record import CaseKind, CaseResult, Reason, ReasonCode, Samples, Status, StopRule
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session
from harness.evaluation.twin import Twin
from harness.evaluation.workers import WorkerFault
from harness.measure.events import events_note
from harness.measure.speed_of_light import Peaks, floor_ns, speed_of_light_ns
from harness.measure.statistics import case_figure, case_times_ns
from harness.measure.stopping import LOOKS, StoppingRule
from harness.wire.packing import PackingError, pack

FULL_CHECKS = 2
"""How many timed outputs, chosen in secret among the first 7, get the full check where a spot check does the rest; one
more does between every two later looks, since a worker can count its calls."""
TIMED_WARMUPS = 2
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
    twin: Twin | None
    """What the clock's own cost is measured on; none where no benchmark runs."""


def run_case(context: CaseContext, session: Session, planned: PlannedCase) -> CaseResult:
    """Run one case to its record, which keeps what was measured before a failure.

    Never raises for what the submission does; the board's faults and the user's interrupt pass through. Look at
    `session.alive` afterwards.
    """
    started = time.perf_counter()
    run: CaseRun = (Test if planned.kind is CaseKind.TEST else Benchmark)(context, session, planned)
    try:
        run.run()
    except WorkerFault as fault:
        if fault.fatal:
            session.worker.kill()
        run.result = replace(run.result, status=fault.status, reason=fault.reason, traceback=fault.traceback)
    except torch.OutOfMemoryError as error:
        run.result = replace(run.result, status=Status.ERROR, reason=own_out_of_memory(error, planned.spec))
    finally:
        if session.cuda:
            torch.cuda.empty_cache()
    return replace(run.result, seconds=time.perf_counter() - started)


class CaseRun:
    """One case being run; `result` is its record so far."""

    def __init__(self, context: CaseContext, session: Session, planned: PlannedCase) -> None:
        self.context, self.session, self.planned = context, session, planned
        self.result = CaseResult(planned.kind, planned.index, planned.spec, Status.PASSED)
        self.choice = context.seeds.random("place", planned.kind, planned.index)

    def run(self) -> None:
        raise NotImplementedError

    def first_call(self, data: Any) -> tuple[OutputForm, Any]:
        """The untimed call: its output's form, and the output."""
        context = self.context
        packed = pack_input(data, context.board)
        return self.session.call(packed, self.choice, context.call_timeout_s, lambda: context.expected.answer(data))


def own_out_of_memory(error: BaseException, spec: Spec) -> Reason:
    first = str(error).splitlines()[0] if str(error) else "out of memory"
    text = f"the harness itself ran out of memory making or checking the input of ({format_spec(spec)}): {first}"
    return Reason(ReasonCode.OUT_OF_MEMORY, text)


def wrong(message: str) -> WorkerFault:
    return WorkerFault(Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, message or "wrong answer"), fatal=False)


def judge(check: Callable[[], tuple[bool, str]]) -> str:
    """Run a check of the board's; its remark when the output is right, a fault when it is not.

    A check that raises has met an output it did not foresee (the reference passes it: `harness lint`), which is the
    output's fault.
    """
    try:
        good, message = check()
    except BoardCodeError as error:
        raise wrong(f"the board's check could not judge the output: {error.what}") from None
    if not good:
        raise wrong(message)
    return message


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
    """A first untimed call, then timed calls on inputs never seen before, every output checked."""

    def __init__(self, context: CaseContext, session: Session, planned: PlannedCase) -> None:
        super().__init__(context, session, planned)
        self._fully_checked = fully_checked(context.seeds.random("full", planned.index))
        self._wall: list[int] = []
        self._lags: list[int] = []
        self._overhead: list[int] = []
        self._twin_lags: list[int] = []
        self._events: list[int] = []
        self._held = 0

    def run(self) -> None:
        context = self.context
        data = context.reference.generate(self.planned.spec, self._seed("first"))
        self.result = with_bounds(self.result, context, data)
        started = time.perf_counter()
        form, output = self.first_call(data)
        first_call_s = time.perf_counter() - started
        note = self._check_fully(data, output)
        context.expected.check_form(data, output)
        output = None  # its memory is needed for the next
        timeout_s = min(context.call_timeout_s, max(TIMED_CALL_LEAST_S, TIMED_CALL_SLOWDOWN * first_call_s))
        stop = self._sample(data, form, timeout_s)
        self.result = below_floor(replace(self.result, stop_rule=stop, notes=self._notes(note)))

    def _seed(self, *use: str | int) -> int:
        return self.context.seeds.derive(self.planned.kind, self.planned.index, *use)

    def _sample(self, data: Any, form: OutputForm, timeout_s: float) -> StopRule:
        began = time.perf_counter()
        for call in range(-TIMED_WARMUPS, LOOKS[-1]):
            data = self._fresh(data, call)
            packed = pack_input(data, self.context.board)
            reading, output = self.session.timed(packed, form, self.choice, timeout_s)
            self._check(data, output, call)
            output = None
            if call < 0:
                continue
            times = case_times_ns(self._keep(reading, form))
            stop = self.context.stopping.decide(times, time.perf_counter() - began)
            if stop is not None:
                return stop
        raise AssertionError("the stopping rule ends at its largest count")

    def _keep(self, reading: TimedCall, form: OutputForm) -> Samples:
        """Take a reading in; the case's samples with it."""
        self._wall.append(reading.wall_ns)
        overhead_ns = 0
        if self.context.twin is not None:
            overhead_ns, twin_lag_ns = self.context.twin.costs_ns(form)
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
        seed = self._seed("call", call)
        reference = self.context.reference
        return reference.vary(data, seed) if reference.has_vary else reference.generate(self.planned.spec, seed)

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
        return Samples(tuple(wall_ns + charged_ns for wall_ns in self._wall), tuple(self._overhead), events)

    def _notes(self, note: str) -> tuple[str, ...]:
        notes = [note] if note else []
        if self.context.reference.has_spot_check:
            done = [call for call in self._fully_checked if call < len(self._wall)]
            notes.append(f"every timed output spot-checked, {len(done)} of them in full")
        if case_figure(self.result.samples) is None:
            notes.append("the calls took no longer than a call of nothing: there is no figure")
        if self._held:
            notes.append(f"{self._held} of {len(self._wall)} calls synchronised inside; their host time counts")
        if disagreement := events_note(self.result.samples):
            notes.append(disagreement)
        return tuple(notes)


def fully_checked(secret: random.Random) -> set[int]:
    """The timed calls whose outputs get the full check where a spot check does the rest."""
    later = (secret.randrange(start, end) for start, end in pairwise(LOOKS))
    return {*secret.sample(range(LOOKS[0]), FULL_CHECKS), *later}


def with_bounds(base: CaseResult, context: CaseContext, data: Any) -> CaseResult:
    """Add the case's work, speed of light and floor, where the board states them and the device is known."""
    settings, spec = context.board.settings, base.spec

    def bound(work: Work | None, rule: Callable[..., float | None]) -> tuple[float | None, float | None, float | None]:
        if work is None:
            return None, None, None
        flops, bytes_moved = context.reference.work(work, data, spec)
        return flops, bytes_moved, rule(flops, bytes_moved, work.precision, context.peaks)

    flops, bytes_moved, light = bound(settings.speed_of_light, speed_of_light_ns)
    _, _, floor = bound(settings.floor, floor_ns)
    return replace(base, flops=flops, bytes_moved=bytes_moved, speed_of_light_ns=light, floor_ns=floor)


def below_floor(result: CaseResult) -> CaseResult:
    """Reject a median that no work could have had."""
    figure = case_figure(result.samples)
    if figure is None or result.floor_ns is None or figure.value_ns >= result.floor_ns:
        return result
    text = (
        f"measured {figure.value_ns / 1e3:.3f} µs, below the floor of {result.floor_ns / 1e3:.3f} µs: the compulsory "
        "traffic and arithmetic of this case take longer on this device"
    )
    return replace(result, status=Status.REJECTED, reason=Reason(ReasonCode.BELOW_FLOOR, text))

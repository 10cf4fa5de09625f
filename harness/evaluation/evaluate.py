"""An evaluation from plan to outcome, as a stream of events.

The phases: *build* imports the submission and runs every shape once on throw-away inputs, so that compilers can fill
their caches (only for sources that compile anything); *test* and *benchmark* each begin with a fresh worker and copies
of these caches. A worker that must not be used any more is replaced before the next case.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.boards.board import GridName, format_spec
from harness.boards.loader import require_rankable
from harness.boards.reference import Reference
from harness.errors import MachineError
from harness.evaluation import machine
from harness.evaluation.building import build
from harness.evaluation.cases import CaseContext, run_case
from harness.evaluation.crew import Crew, crew_size
from harness.evaluation.expected import Expected
from harness.evaluation.host import Host
from harness.evaluation.left_out import left_out
from harness.evaluation.plan import COMPILES, USES_TRITON, Plan, PlannedCase
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    EvaluationHeader,
    EvaluationOutcome,
    Event,
    IsolationLevel,
    Mode,
    Notice,
    Progress,
    Reason,
    ReasonCode,
    Status,
)
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session
from harness.evaluation.state import StateWatch
from harness.evaluation.twin import Twin, open_twins
from harness.evaluation.users_words import in_the_users_words
from harness.evaluation.verdict import failed, verdict
from harness.evaluation.workers import ForkServer, WorkerFault
from harness.measure.scoring import score_of_cases
from harness.measure.speed_of_light import peaks_for
from harness.measure.stopping import StoppingRule
from harness.sandbox import best_level, harden_supervisor

CASE_BUDGET_S = {"cuda": 2.0, "cpu": 1.0}
"""Wall time for the timed calls of one case, beyond the first 7."""


@dataclass
class Phases:
    """Where the wall time went, by phase, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def spent(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started


class Evaluation:
    """One evaluation under the sealed protocol. Iterate `events()` to run it; stop iterating to end it early."""

    def __init__(self, plan: Plan, logs: Path, server: ForkServer | None = None) -> None:
        self._plan, self._logs, self._server = plan, logs, server
        self._device = machine.device()
        self._cuda = self._device.kind == "cuda"
        self._grid: GridName = plan.grid or machine.grid_name()
        self._cases = plan.cases(self._grid)
        self._seeds = Seeds.fresh() if plan.seed is None else Seeds(plan.seed)
        self._interpreted = not self._cuda and USES_TRITON.search(plan.source) is not None
        self._isolation = plan.isolation or best_level()
        self._phases = Phases()
        self._results: list[CaseResult] = []
        self._watch = StateWatch(self._device.kind)

    def header(self) -> EvaluationHeader:
        """What is known before anything runs."""
        return EvaluationHeader(
            mode=self._plan.mode,
            protocol=self._plan.protocol,
            grid=self._grid,
            device=self._device,
            isolation=self._isolation,
            interpreted=self._interpreted,
            seed=self._seeds.root,
            versions=machine.versions(),
            log=str(self._logs),
            cases_planned=len(self._cases),
            ranking_by=self._plan.board.ranking_by,
        )

    def events(self) -> Iterator[Event]:
        """Run. Yields the header, progress and case results, and last the outcome.

        Raises RequestError and MachineError for the board's faults and the machine's; what the submission does wrong is
        in the events.
        """
        yield self.header()
        harden_supervisor()
        yield from map(Notice, self._watch.look("before"))
        with ExitStack() as stack:
            with self._phases.spent("start"):
                host = Host(
                    self._plan.board,
                    self._plan.source,
                    cuda=self._cuda,
                    isolation=self._isolation,
                    logs=self._logs,
                    interpreted=self._interpreted,
                    server=self._server,
                )
                stack.enter_context(host)  # its process imports torch while the board is loaded here
                self._reference = Reference.load(self._plan.board)
                self._expected = Expected(self._reference)
                host.wait_ready()
            self._twins: list[Twin] = []
            if self._any(CaseKind.BENCHMARK):
                with self._phases.spent("start"):
                    self._twins = open_twins(host, self._crew_size(CaseKind.BENCHMARK), cuda=self._cuda)
                for twin in self._twins:
                    stack.callback(twin.close)
            if COMPILES.search(self._plan.source) and self._any(CaseKind.BENCHMARK):
                yield Progress("build: every shape once, on throw-away inputs", 0, len(self._cases))
                with self._phases.spent("build"):
                    trouble = self._build(host)
                if trouble:
                    yield Notice(trouble)
            for kind in CaseKind:
                yield from self._phase(host, kind)
            yield from map(Notice, self._watch.look("after"))  # while the device is warm
        yield self._outcome()

    def _any(self, kind: CaseKind) -> bool:
        return any(case.kind is kind for case in self._cases)

    def _build(self, host: Host) -> str:
        cases = [(case.spec, self._call_timeout_s(case.kind)) for case in self._cases]
        timeout_s = self._build_timeout_s()
        return build(host, self._reference, cases, self._seeds, cuda=self._cuda, timeout_s=timeout_s)

    def _phase(self, host: Host, kind: CaseKind) -> Iterator[Event]:
        cases = [case for case in self._cases if case.kind is kind]
        if not cases or (self._plan.fail_fast and self._failed()):
            return
        if kind is CaseKind.BENCHMARK and self._results and not self._any_passed():
            yield Notice("no test passed: the benchmarks are left out")
            return
        with self._phases.spent(kind.value):
            deadline = time.monotonic() + self._phase_timeout_s(kind)
            crew = Crew(host, kind.value, self._crew_size(kind), cuda=self._cuda)
            try:
                for case in cases:
                    yield Progress(
                        f"{kind} {case.index}: {format_spec(case.spec)}", len(self._results), len(self._cases)
                    )
                    try:
                        left = max(1.0, deadline - time.monotonic())
                        sessions = crew.ready(min(self._call_timeout_s(kind), left))
                    except WorkerFault as fault:
                        yield from self._all_fail(cases, case, fault, crew)
                        return
                    if time.monotonic() > deadline:
                        result = self._out_of_time(case, kind)
                    else:
                        result, used = self._run(crew, sessions, case, self._context(kind, deadline))
                        result = self._in_the_users_words(result, crew, used)
                    self._results.append(result)
                    yield result
                    if self._plan.fail_fast and result.status is not Status.PASSED:
                        return
            finally:
                crew.close()

    def _run(
        self, crew: Crew, sessions: list[Session], case: PlannedCase, context: CaseContext
    ) -> tuple[CaseResult, Session | None]:
        """Run a case, and where there is not the memory for a whole crew, once more in a single worker. Its record,
        and the worker that was last in use."""
        result, used = run_case(context, sessions, case)
        if crew.size == 1 or result.reason is None or result.reason.code is not ReasonCode.OUT_OF_MEMORY:
            return result, used
        crew.reduce_to_one()
        try:
            result, used = run_case(context, crew.ready(context.timeout_s), case, attempt=1)
        except WorkerFault as fault:
            return failed(case, fault), None
        note = f"measured in one process from here on: there is no memory for {len(sessions)}"
        return replace(result, notes=(*result.notes, note)), used

    def _all_fail(
        self, cases: list[PlannedCase], first: PlannedCase, fault: WorkerFault, crew: Crew
    ) -> Iterator[CaseResult]:
        """The records of the cases that a submission which cannot be loaded leaves; what it printed is the first's."""
        for case in cases[cases.index(first) :]:
            result = self._in_the_users_words(failed(case, fault), crew)
            self._results.append(result)
            yield result

    def _in_the_users_words(self, result: CaseResult, crew: Crew, used: Session | None = None) -> CaseResult:
        printed, log = crew.printed(used if result.status is not Status.PASSED else None)
        board, file_name = self._plan.board, self._plan.file_name
        return in_the_users_words(result, board, file_name, cuda=self._cuda, printed=printed, log=log)

    def _out_of_time(self, case: PlannedCase, kind: CaseKind) -> CaseResult:
        text = f"not reached: the board gives {self._phase_timeout_s(kind):g} s for all {kind} cases together"
        return CaseResult(case.kind, case.index, case.spec, Status.TIMEOUT, Reason(ReasonCode.TIMEOUT, text))

    def _context(self, kind: CaseKind, deadline: float) -> CaseContext:
        return CaseContext(
            board=self._plan.board,
            reference=self._reference,
            expected=self._expected,
            seeds=self._seeds,
            peaks=peaks_for(self._device.name),
            stopping=StoppingRule(budget_s=CASE_BUDGET_S[self._device.kind]),
            call_timeout_s=self._call_timeout_s(kind),
            deadline=deadline,
            twins=self._twins,
        )

    def _crew_size(self, kind: CaseKind) -> int:
        if kind is CaseKind.TEST:
            return 1
        return self._plan.workers or crew_size(self._plan.mode, self._device)

    def _phase_timeout_s(self, kind: CaseKind) -> float:
        board = self._plan.board
        if kind is CaseKind.TEST:
            return board.test_timeout_s
        return board.ranked_timeout_s if self._plan.mode is Mode.LEADERBOARD else board.benchmark_timeout_s

    def _call_timeout_s(self, kind: CaseKind) -> float:
        return self._plan.call_timeout_s or self._phase_timeout_s(kind)

    def _build_timeout_s(self) -> float:
        return self._plan.call_timeout_s or self._plan.board.test_timeout_s

    def _any_passed(self) -> bool:
        return any(result.status is Status.PASSED for result in self._results)

    def _failed(self) -> bool:
        return any(result.status is not Status.PASSED for result in self._results)

    def _outcome(self) -> EvaluationOutcome:
        status, reason = verdict(self._results)
        return EvaluationOutcome(
            status, reason, self._rank_reason(status), dict(self._phases.seconds), self._watch.state
        )

    def _rank_reason(self, status: Status) -> Reason | None:
        """Why a passed evaluation takes no part in the ranking, or has no score."""
        if status is not Status.PASSED or self._plan.mode is Mode.TEST:
            return None
        part = left_out(self._plan, self._grid)
        if part is not None or self._plan.mode is not Mode.LEADERBOARD:
            return part
        if self._interpreted:
            return Reason(ReasonCode.INTERPRETED, "run by Triton's interpreter on a CPU: checked, never ranked")
        score = score_of_cases(self._plan.board.ranking_by, self._results)
        if score is not None and not score.is_resolved:
            text = "the times vary so much that they are not told from those of a call of nothing; "
            return Reason(ReasonCode.TOO_NOISY, text + "submit it again when the machine has less else to do")
        if self._isolation is IsolationLevel.NONE:
            return Reason(
                ReasonCode.NOT_ISOLATED, "run without a sandbox; the store's owner decides whether that ranks"
            )
        return None


def check_runs_here(plan: Plan) -> None:
    """Refuse at once what the sealed protocol can't run (MachineError) or can't rank (RequestError)."""
    if plan.mode is Mode.LEADERBOARD:
        require_rankable(plan.board, plan.board.grid(plan.grid or machine.grid_name()))
    if plan.board.language.value != "py" or plan.board.multi_gpu:
        what = "a multi-GPU board" if plan.board.multi_gpu else "a CUDA board"
        raise MachineError(
            f"'{plan.board.name}' is {what}, which runs by the popcorn protocol only",
            hint="Add --protocol popcorn.",
        )

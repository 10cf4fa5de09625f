"""An evaluation by the public popcorn protocol: the board's own eval main, run as the hosted service runs it.

The eval main needs the reference in its folder and checks in the process that it shares with the submission, so its
verdict can be forged. Its figures are there to be compared with the hosted service's, and never rank.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from harness.boards.board import GridName, Language, RankBy, gpus_needed
from harness.errors import MachineError
from harness.evaluation.left_out import left_out
from harness.evaluation.plan import COMPILES, USES_TRITON, Plan, PlannedCase
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    EvaluationHeader,
    EvaluationOutcome,
    Event,
    Mode,
    Notice,
    Progress,
    Protocol,
    Reason,
    ReasonCode,
    Status,
)
from harness.evaluation.seeds import Seeds
from harness.evaluation.state import StateWatch
from harness.popcorn.compiling import COMPILE_TIMEOUT_S, EXECUTABLE, Compiled, compile_board
from harness.popcorn.program import Limits
from harness.popcorn.protocol import RunMode
from harness.popcorn.runs import EvalRun, ended_case
from harness.popcorn.verdicts import Judge
from harness.popcorn.workplace import CASES_FILE, Workplace

RUNS = {
    Mode.TEST: (RunMode.TEST,),
    Mode.BENCHMARK: (RunMode.BENCHMARK,),
    Mode.LEADERBOARD: (RunMode.TEST, RunMode.BENCHMARK, RunMode.LEADERBOARD),
}
"""Which runs of the eval main a mode consists of, as in the hosted service. Each must pass for the next to begin."""
RANK_REASON = Reason(
    ReasonCode.UNSEALED_PROTOCOL,
    "the popcorn protocol's verdict can be forged by the submission, so it never ranks; --protocol sealed does",
)


class PopcornEvaluation:
    """One evaluation under the popcorn protocol. Iterate `events()` to run it; stop iterating to end it early."""

    def __init__(self, plan: Plan, logs: Path) -> None:
        """Raises RequestError for cases that the board lacks, MachineError where the machine has too few GPUs."""
        from harness.evaluation import machine
        from harness.sandbox import best_level

        self._plan, self._logs, self._board = plan, logs, plan.board
        self._device, self._versions = machine.device(), machine.versions()
        self._cuda = self._device.kind == "cuda"
        self._grid: GridName = plan.grid or machine.grid_name()
        self._cases = self._as_served(plan.cases(self._grid))
        self._gpus = _device_count()
        self._require_gpus()
        self._seeds = Seeds.fresh() if plan.seed is None else Seeds(plan.seed)
        self._interpreted = not self._cuda and USES_TRITON.search(plan.source) is not None
        self._isolation = plan.isolation or best_level()
        self._submission = next(file.name for file in self._board.files if file.source is None)
        self._seconds: dict[str, float] = {}
        self._watch = StateWatch(self._device.kind)
        self._fault: tuple[Status, Reason] | None = None
        """What is wrong beyond the cases: with the run of the eval main, or with the compilation before it."""
        self._began = False
        self._gate: dict[int, str] = {}

    def header(self) -> EvaluationHeader:
        """What is known before anything runs."""
        return EvaluationHeader(
            mode=self._plan.mode,
            protocol=Protocol.POPCORN,
            grid=self._grid,
            device=self._device,
            isolation=self._isolation,
            interpreted=self._interpreted,
            seed=self._seeds.root,
            versions=self._versions,
            log=str(self._logs),
            cases_planned=len(self._cases),
            ranking_by=self._board.ranking_by,
        )

    def events(self) -> Iterator[Event]:
        """Run. Yields the header, progress and case results, and last the outcome.

        Cases that an ended run did not reach have no record. Raises RequestError and MachineError for the board's
        faults and the machine's; what the submission does wrong is in the events.
        """
        yield self.header()
        yield from map(Notice, self._watch.look("before"))
        results: list[CaseResult] = []
        with ExitStack() as stack:
            workplace = stack.enter_context(self._workplace())
            compiled = yield from self._prepare(workplace, results)
            for mode in RUNS[self._plan.mode]:
                if self._fault or any(result.status is not Status.PASSED for result in results):
                    break
                gate = mode is RunMode.BENCHMARK and self._plan.mode is Mode.LEADERBOARD
                yield from self._run(workplace, compiled, mode, results, gate=gate)
        yield from map(Notice, self._watch.look("after"))
        yield self._outcome(results)

    def profile(self) -> Iterator[Event]:
        """The eval main's mode `profile` over the benchmarks; a case's report is the first of its notes.

        Neither checked nor recorded; raises as `events` does.
        """
        results: list[CaseResult] = []
        with ExitStack() as stack:
            workplace = stack.enter_context(self._workplace())
            compiled = yield from self._prepare(workplace, results)
            if not results:
                yield from self._run(workplace, compiled, RunMode.PROFILE, results, gate=False)
        yield self._outcome(results)

    # --- what is run ---

    def _as_served(self, cases: tuple[PlannedCase, ...]) -> list[PlannedCase]:
        """The cases that the service would hand to the eval main: with `ranking_by: last`, the last benchmark alone."""
        benchmarks = [case for case in cases if case.kind is CaseKind.BENCHMARK]
        if self._board.ranking_by is not RankBy.LAST or self._plan.only:
            return list(cases)
        return [case for case in cases if case.kind is CaseKind.TEST] + benchmarks[-1:]

    def _require_gpus(self) -> None:
        needed = gpus_needed(case.spec for case in self._cases)
        if self._board.multi_gpu and needed > self._gpus:
            raise MachineError(
                f"board '{self._board.name}' needs {needed} GPUs (world_size), this machine has {self._gpus}",
                hint="Choose smaller cases with --case, or run it on a machine with more GPUs.",
            )

    def _workplace(self) -> Workplace:
        return Workplace(
            self._board,
            self._plan.source,
            isolation=self._isolation,
            cuda=self._cuda,
            logs=self._logs,
            interpreted=self._interpreted,
            gpus=self._gpus,
        )

    def _prepare(self, workplace: Workplace, results: list[CaseResult]) -> Generator[Event, None, Compiled | None]:
        """Compile a CUDA board; run a Python submission that compiles anything once, alone, to fill its caches."""
        started = time.perf_counter()
        compiled: Compiled | None = None
        if self._board.language is Language.CUDA:
            yield Progress("compile with nvcc", 0, len(self._cases))
            capability = str(self._device.details["compute_capability"]) if self._cuda else None
            compiled = compile_board(self._board, workplace, capability)
            if compiled.failure is not None:
                self._fault = compiled.failure[:2]
                result = ended_case(self._cases[0], compiled.failure)
                results.append(result)
                yield result
            elif not self._cuda:
                raise MachineError(
                    f"it compiles (for sm_{compiled.architecture}), and can't be run: this machine has no CUDA device",
                    hint="`harness doctor` says what this machine has.",
                )
        elif COMPILES.search(self._plan.source):
            yield Progress("the submission alone, so that its compilers fill their caches", 0, len(self._cases))
            folder = workplace.folder("prepare")
            # As the service does: its exit status and its words on the pipe count for nothing.
            with workplace.program(folder, [sys.executable, self._submission], seed=1) as program:
                for _ in program.lines(Limits(COMPILE_TIMEOUT_S)):
                    pass
            workplace.keep_caches(folder)
        self._seconds["build"] = time.perf_counter() - started
        return compiled

    def _command(self, workplace: Workplace, compiled: Compiled | None, run: EvalRun) -> tuple[Path, list[str]]:
        """A fresh folder for a run, and the program in it."""
        if compiled is None:
            folder = workplace.folder(run.mode.value, cases=run.cases)
            return folder, [sys.executable, self._board.main, run.mode.value, CASES_FILE]
        # The sources are not there while the submission's code runs.
        folder = workplace.folder(run.mode.value, cases=run.cases, with_files=False)
        shutil.copy(compiled.folder / EXECUTABLE, folder / EXECUTABLE)
        return folder, [f"./{EXECUTABLE}", run.mode.value, CASES_FILE]

    def _seed(self, mode: RunMode) -> int | None:
        """POPCORN_SEED: a secret one for the ranked run, else the board's own, unless the user asked for one."""
        if mode is RunMode.LEADERBOARD:
            return self._seeds.derive("popcorn")
        return self._plan.seed if self._plan.seed is not None else self._board.seed

    def _limits(self, mode: RunMode) -> Limits:
        board = self._board
        if mode is RunMode.TEST:
            return Limits(board.test_timeout_s, self._plan.call_timeout_s)
        # A timed case is many calls, so a limit on one call says nothing on the time between two lines.
        return Limits(board.ranked_timeout_s if mode is RunMode.LEADERBOARD else board.benchmark_timeout_s)

    # --- one run ---

    def _run(
        self, workplace: Workplace, compiled: Compiled | None, mode: RunMode, results: list[CaseResult], *, gate: bool
    ) -> Iterator[Event]:
        """One run of the eval main. A gate's results count only if one failed: the ranked run gives the figures."""
        cases = [case for case in self._cases if case.kind is mode.kind]
        if not cases:
            return
        judge = Judge(self._board, mode, self._submission, cuda=self._cuda)
        run = EvalRun(mode, cases, judge, fail_fast=self._plan.fail_fast)
        folder, argv = self._command(workplace, compiled, run)
        self._began = True
        started = time.perf_counter()
        with workplace.program(folder, argv, seed=self._seed(mode)) as program:
            for event in run.follow(program, self._limits(mode)):
                if isinstance(event, CaseResult) and gate:
                    continue
                if isinstance(event, CaseResult):
                    event = self._with_gate(event)
                    results.append(event)
                yield event
        self._seconds[mode.value] = time.perf_counter() - started
        self._fault = run.fault
        if gate and (run.failed or run.fault):
            results += run.results
            yield from run.results
        elif gate:
            self._gate = {result.index: result.notes[0] for result in run.results if result.notes}

    # --- the outcome ---

    def _with_gate(self, result: CaseResult) -> CaseResult:
        """A ranked case with the figure that it had in the benchmark run before."""
        earlier = self._gate.get(result.index)
        if earlier is None:
            return result
        return replace(result, notes=(*result.notes, f"in the benchmark run before: {earlier}"))

    def _outcome(self, results: list[CaseResult]) -> EvaluationOutcome:
        from harness.evaluation.verdict import verdict

        status, reason = verdict(results)
        if self._fault is not None and (status is Status.PASSED or not self._began):
            status, reason = self._fault
        return EvaluationOutcome(status, reason, self._rank_reason(status), dict(self._seconds), self._watch.state)

    def _rank_reason(self, status: Status) -> Reason | None:
        if status is not Status.PASSED or self._plan.mode is Mode.TEST:
            return None
        return left_out(self._plan, self._grid) or (RANK_REASON if self._plan.mode is Mode.LEADERBOARD else None)


def _device_count() -> int:
    import torch

    return torch.cuda.device_count()

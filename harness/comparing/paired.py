"""Running a paired comparison. Importing this imports torch.

Each case: the first, untimed calls; a null run of A's workers against each other; then A against B for as many units as
the null run took. Both workers of a unit get the same input, which neither has seen before, at addresses of their own.
Every timed output is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from harness.boards.board import Board, GridName, Spec, format_spec
from harness.boards.reference import Reference
from harness.comparing.case_run import CaseRun
from harness.comparing.contestants import Contestant
from harness.comparing.crew import Crew
from harness.comparing.record import CaseComparison, Fault, Name, PairedComparison
from harness.errors import MachineError
from harness.evaluation import machine
from harness.evaluation.building import build
from harness.evaluation.evaluate import check_runs_here
from harness.evaluation.host import Host, server_environment
from harness.evaluation.plan import COMPILES, USES_TRITON, Plan
from harness.evaluation.record import CaseKind, IsolationLevel, Mode, Progress, ReasonCode
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session, open_session
from harness.evaluation.users_words import failure_in_the_users_words
from harness.evaluation.workers import ForkServer
from harness.sandbox import best_level, harden_supervisor

DEFAULT_BUDGET_S = 10.0
"""Wall time for the timed calls of one case, null run included; the first eight units, or the first cycle of all
processes, are taken whatever they cost."""
DEFAULT_PROCESSES = {"cuda": 8, "cpu": 1}
"""Of each version. On a CPU what differs between processes is lost in what else the machine does."""


@dataclass(frozen=True)
class Request:
    """What is to be compared, and how."""

    board: Board
    source_a: str
    source_b: str
    names: tuple[str, str] = ("a.py", "b.py")
    """What whoever reads the result calls the two files."""
    grid: GridName | None = None
    """None: the full grid on a CUDA device, else the CPU grid."""
    only: tuple[int, ...] = ()
    budget_s: float = DEFAULT_BUDGET_S
    processes: int | None = None
    """Of each version, one of `measure.processes.PROCESSES`; None: what `DEFAULT_PROCESSES` says of the device."""
    isolation: IsolationLevel | None = None
    seed: int | None = None

    def cases(self, grid: GridName) -> list[tuple[int, Spec]]:
        plan = Plan(self.board, self.source_a, "", Mode.BENCHMARK, only=self.only)
        return [(case.index, case.spec) for case in plan.cases(grid) if case.kind is CaseKind.BENCHMARK]


class Comparing:
    """One comparison. Iterate `events()` to run it; `result` holds what is known so far."""

    def __init__(self, request: Request, logs: Path) -> None:
        self._request = request
        self._device = machine.device()
        self._cuda = self._device.kind == "cuda"
        for source in (request.source_a, request.source_b):
            check_runs_here(Plan(request.board, source, "", Mode.BENCHMARK))
            if not self._cuda and USES_TRITON.search(source):
                raise MachineError(
                    "a kernel run by Triton's interpreter has no time worth comparing",
                    hint="Compare on a machine with a CUDA device.",
                )
        grid = request.grid or machine.grid_name()
        self._cases = request.cases(grid)
        self._seeds = Seeds.fresh() if request.seed is None else Seeds(request.seed)
        self._logs = logs
        self.result = PairedComparison(
            leaderboard=request.board.name,
            grid=grid,
            device=self._device,
            isolation=request.isolation or best_level(),
            ranking_by=request.board.ranking_by,
            processes=request.processes or DEFAULT_PROCESSES[self._device.kind],
            seed=self._seeds.root,
            log=str(logs),
            versions=machine.versions(),
        )

    def events(self) -> Iterator[Progress | CaseComparison]:
        """Run. Yields progress, and each case when it is done.

        Raises RequestError and MachineError for the board's faults and the machine's; what a submission does wrong is
        in its case's `fault`.
        """
        harden_supervisor()
        with ExitStack() as stack:
            server = ForkServer(server_environment())
            stack.callback(server.close)
            a, b = (
                stack.enter_context(self._host(source, server, self._logs / side))
                for side, source in (("a", self._request.source_a), ("b", self._request.source_b))
            )
            reference = Reference.load(self._request.board)
            twin = open_session(a, "twin", cuda=self._cuda, with_submission=False)
            stack.callback(twin.close)
            if self.result.processes > 1:
                yield from self._build(reference, a, b)
            crew = Crew.of(self.result.processes, lambda side, number: self._contestant(side, number, a, b))
            stack.callback(crew.close)
            for number, (index, spec) in enumerate(self._cases):
                yield Progress(f"case {index}: {format_spec(spec)}", number, len(self._cases))
                case = self._case(crew, reference, twin, index, spec)
                self.result = replace(self.result, cases=(*self.result.cases, case))
                yield case

    def _case(self, crew: Crew, reference: Reference, twin: Session, index: int, spec: Spec) -> CaseComparison:
        """One case, in half as many processes each time that the device's memory does not hold all of them."""
        run = CaseRun(self._request, reference, self._seeds, twin, index, spec, cuda=self._cuda)
        case = run.run(crew)
        while case.processes > 1 and case.fault is not None and case.fault.reason.code is ReasonCode.OUT_OF_MEMORY:
            fewer = crew.halved()
            while fewer.processes >= case.processes:  # time had left out some already
                fewer = fewer.halved()
            crew.end_all_but(fewer)
            crew = fewer
            case = run.run(crew)
        return replace(case, fault=case.fault and self._in_the_users_words(case.fault))

    def _in_the_users_words(self, fault: Fault) -> Fault:
        if fault.name is None:
            return fault
        file_name = self._request.names[fault.name is Name.B]
        reason, traceback = failure_in_the_users_words(
            fault.reason, fault.traceback, self._request.board, file_name, cuda=self._cuda
        )
        return replace(fault, reason=reason, traceback=traceback)

    def _build(self, reference: Reference, *hosts: Host) -> Iterator[Progress]:
        """So that no shape is compiled in every worker anew."""
        for host, source in zip(hosts, (self._request.source_a, self._request.source_b), strict=True):
            if COMPILES.search(source):
                yield Progress("build: every shape once, on throw-away inputs", 0, len(self._cases))
                board = self._request.board
                cases = [(spec, board.benchmark_timeout_s) for _, spec in self._cases]
                build(host, reference, cases, self._seeds, cuda=self._cuda, timeout_s=board.test_timeout_s)

    def _contestant(self, side: str, number: int, a: Host, b: Host) -> Contestant:
        name, host = (Name.A, a) if side == "a" else (Name.B, b)
        choice = self._seeds.random("place", side, number)
        timeout_s = self._request.board.benchmark_timeout_s
        return Contestant(name, side, host, cuda=self._cuda, timeout_s=timeout_s, choice=choice)

    def _host(self, source: str, server: ForkServer, logs: Path) -> Host:
        return Host(
            self._request.board,
            source,
            cuda=self._cuda,
            isolation=self.result.isolation,
            logs=logs,
            server=server,
        )

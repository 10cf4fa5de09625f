"""Running a paired comparison. Importing this imports torch.

Each case: the first, untimed calls; a null run of A against a second worker with A; then A against B for as many units
as the null run took. Both workers of a pair get the same input, which neither has seen before, at addresses of their
own. Every timed output is checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from harness.boards.board import Board, GridName, Spec, format_spec
from harness.boards.reference import Reference
from harness.comparing.contestants import Contestant, Failed, Judges
from harness.comparing.record import CaseComparison, Fault, Name, PairedComparison, Readings, units
from harness.errors import MachineError
from harness.evaluation import machine
from harness.evaluation.cases import own_out_of_memory, pack_input
from harness.evaluation.evaluate import check_runs_here
from harness.evaluation.expected import Expected
from harness.evaluation.host import Host, server_environment
from harness.evaluation.plan import USES_TRITON, Plan
from harness.evaluation.record import CaseKind, IsolationLevel, Mode, Progress, Status
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session
from harness.evaluation.workers import ForkServer
from harness.measure.comparison import enough
from harness.sandbox import best_level, harden_supervisor

DEFAULT_BUDGET_S = 10.0
"""Wall time for the timed calls of one case, null run included; the first eight units are taken whatever they cost."""
WARM_UP_UNITS = 2
FULLY_CHECKED_UNITS = 2


@dataclass(frozen=True)
class Request:
    """What is to be compared, and how."""

    board: Board
    source_a: str
    source_b: str
    grid: GridName | None = None
    """None: the full grid on a CUDA device, else the CPU grid."""
    only: tuple[int, ...] = ()
    budget_s: float = DEFAULT_BUDGET_S
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
            request = self._request
            hosts = [
                stack.enter_context(self._host(source, server, self._logs / name))
                for name, source in (("a", request.source_a), ("b", request.source_b))
            ]
            reference = Reference.load(self._request.board)
            twin = Session(hosts[0], "twin", cuda=self._cuda, with_submission=False)
            stack.callback(twin.close)
            a, again, b = (self._contestant(*which) for which in self._entries(hosts))
            for contestant in (a, again, b):
                stack.callback(contestant.close)
            for number, (index, spec) in enumerate(self._cases):
                yield Progress(f"case {index}: {format_spec(spec)}", number, len(self._cases))
                run = CaseRun(self._request, reference, self._seeds, twin, index, spec, cuda=self._cuda)
                case = run.run(a, again, b)
                self.result = replace(self.result, cases=(*self.result.cases, case))
                yield case

    def _entries(self, hosts: list[Host]) -> list[tuple[Name, str, Host]]:
        return [(Name.A, "a", hosts[0]), (Name.A, "a-again", hosts[0]), (Name.B, "b", hosts[1])]

    def _contestant(self, name: Name, phase: str, host: Host) -> Contestant:
        choice = self._seeds.random("place", phase)
        timeout_s = self._request.board.benchmark_timeout_s
        return Contestant(name, phase, host, cuda=self._cuda, timeout_s=timeout_s, choice=choice)

    def _host(self, source: str, server: ForkServer, logs: Path) -> Host:
        return Host(
            self._request.board,
            source,
            cuda=self._cuda,
            isolation=self.result.isolation,
            logs=logs,
            server=server,
        )


class CaseRun:
    """One case being compared."""

    def __init__(
        self, request: Request, reference: Reference, seeds: Seeds, twin: Session, index: int, spec: Spec, *, cuda: bool
    ) -> None:
        self._request, self._reference, self._seeds, self._twin = request, reference, seeds, twin
        self._index, self._spec, self._cuda = index, spec, cuda
        self._judges = Judges(request.board, reference)
        self._inputs = 0
        self._data: Any = None
        self._overhead: list[int] = []

    def run(self, a: Contestant, again: Contestant, b: Contestant) -> CaseComparison:
        """The case's record. Never raises for what a submission does."""
        started = time.perf_counter()
        null: list[Readings] = []
        paired: list[Readings] = []
        fault: Fault | None = None
        try:
            self._prepare(a, again, b)
            began = time.perf_counter()
            while not enough(units(null, self._overhead), time.perf_counter() - began, self._request.budget_s / 2):
                null.append(self.unit(a, again, fully=len(null) < FULLY_CHECKED_UNITS))
            while len(paired) < len(null):
                paired.append(self.unit(a, b, fully=len(paired) < FULLY_CHECKED_UNITS))
        except Failed as failed:
            fault = failed.fault
        except torch.OutOfMemoryError as error:
            fault = Fault(None, Status.ERROR, own_out_of_memory(error, self._spec))
        finally:
            self._data = None
            if self._cuda:
                torch.cuda.empty_cache()
        return CaseComparison(
            index=self._index,
            spec=self._spec,
            null=tuple(null),
            paired=tuple(paired),
            overhead_ns=tuple(self._overhead),
            fault=fault,
            seconds=time.perf_counter() - started,
        )

    def _prepare(self, *contestants: Contestant) -> None:
        """Workers, compiled and tuned kernels, and a few timed calls that do not count."""
        self._data = self._reference.generate(self._spec, self._seed("first"))
        packed = pack_input(self._data, self._request.board)
        expected = Expected(self._reference)
        for contestant in contestants:
            contestant.ready()
            self._check(contestant, contestant.first_call(packed, lambda: expected.answer(self._data)), fully=True)
        a, again, b = contestants
        for _ in range(WARM_UP_UNITS):
            self.unit(a, again, fully=False)
            self.unit(a, b, fully=False)
        self._overhead = []

    def unit(self, first: Contestant, second: Contestant, *, fully: bool) -> Readings:
        """A B on one fresh input, B A on the next; the readings in that order. Raises Failed.

        A call of nothing in the twin goes before each: otherwise B's second call would follow one of its own process,
        whose caches are warm, and A's never would.
        """
        walls: list[int] = []
        for order in ((first, second), (second, first)):
            packed = self._fresh()
            for contestant in order:
                self._overhead.append(self._twin.noop())
                reading, output = contestant.timed(packed)
                self._check(contestant, output, fully=fully)
                walls.append(reading.wall_ns)
        return walls[0], walls[1], walls[2], walls[3]

    def _fresh(self) -> Any:
        self._inputs += 1
        seed = self._seed("input", self._inputs)
        if self._reference.has_vary:
            self._data = self._reference.vary(self._data, seed)
        else:
            self._data = self._reference.generate(self._spec, seed)
        return pack_input(self._data, self._request.board)

    def _check(self, contestant: Contestant, output: Any, *, fully: bool) -> None:
        seed = self._seed("spot", contestant.name, self._inputs)
        contestant.check(lambda: self._judges.judge(self._data, output, seed=seed, fully=fully))

    def _seed(self, *use: str | int) -> int:
        return self._seeds.derive("compare", self._index, *use)

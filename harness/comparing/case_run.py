"""One case of a comparison being run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from harness.boards.board import Spec
from harness.boards.reference import Reference
from harness.comparing.contestants import Contestant, Failed, Judges
from harness.comparing.crew import Crew, start
from harness.comparing.record import CaseComparison, Fault, Readings, units
from harness.comparing.room import Room
from harness.cuda.driver import OUT_OF_MEMORY, CudaError
from harness.errors import MachineError
from harness.evaluation.cases import own_out_of_memory, pack_input
from harness.evaluation.expected import Expected
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session
from harness.measure.comparison import enough

if TYPE_CHECKING:
    from harness.comparing.paired import Request

WARM_UP_ROUNDS = 3
FULLY_CHECKED_UNITS = 2
MOST_FIRST_CALLS_S = 60.0
"""In which every worker compiles and tunes for itself, one after the other, what no cache of the build holds."""


class CaseRun:
    """`run` may be called again, with another crew; no input comes twice."""

    def __init__(
        self, request: Request, reference: Reference, seeds: Seeds, twin: Session, index: int, spec: Spec, *, cuda: bool
    ) -> None:
        self._request, self._reference, self._seeds, self._twin = request, reference, seeds, twin
        self._index, self._spec, self._cuda = index, spec, cuda
        self._judges = Judges(request.board, reference)
        self._inputs = 0
        self._data: Any = None
        self._overhead: list[int] = []

    def run(self, crew: Crew) -> CaseComparison:
        """The case's record. Never raises for what a submission does."""
        started = time.perf_counter()
        null: list[Readings] = []
        paired: list[Readings] = []
        fault: Fault | None = None
        try:
            crew = self._prepare(crew)
            began = time.perf_counter()
            while not self._enough(crew, null, time.perf_counter() - began):
                null.append(self.unit(*crew.null_pair(len(null)), fully=self._fully(crew, null)))
            while len(paired) < len(null):
                paired.append(self.unit(*crew.pair(len(paired)), fully=self._fully(crew, paired)))
        except Failed as failed:
            fault = failed.fault
        except (torch.OutOfMemoryError, CudaError) as error:
            if isinstance(error, CudaError) and error.code != OUT_OF_MEMORY:
                raise
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
            processes=crew.processes,
            fault=fault,
            seconds=time.perf_counter() - started,
        )

    def _enough(self, crew: Crew, null: list[Readings], spent_s: float) -> bool:
        return enough(units(null, self._overhead), spent_s, self._request.budget_s / 2, crew.processes)

    def _fully(self, crew: Crew, done: list[Readings]) -> bool:
        """Every worker's outputs are checked in full at least once."""
        return len(done) < max(FULLY_CHECKED_UNITS, crew.processes)

    def _prepare(self, crew: Crew) -> Crew:
        """Workers, compiled and tuned kernels, and a few timed calls that do not count. Returns those of the crew that
        take part: half of them, or fewer, where all of their first calls would take too long.

        The others are not begun with where what the first worker took says that the device's memory won't hold them.
        Raises Failed, with `out_of_memory`, where there is no room for all of a crew.
        """
        self._data = self._reference.generate(self._spec, self._next_seed())
        packed = pack_input(self._data, self._request.board)
        expected = Expected(self._reference)
        room = Room(crew.first) if self._cuda else None
        start([crew.first])
        began = time.perf_counter()
        self._first_call(crew.first, packed, expected)
        took = time.perf_counter() - began
        while crew.processes > 1 and took * len(crew.others) > MOST_FIRST_CALLS_S:
            crew = crew.halved()
        if crew.processes > 1 and room is not None and not room.suffices(crew.others):
            raise no_room(crew)
        try:
            start(crew.others)
        except MachineError:
            if crew.processes == 1:
                raise
            raise no_room(crew) from None
        for contestant in crew.others:
            self._first_call(contestant, packed, expected)
        for _ in range(WARM_UP_ROUNDS):
            packed = self._fresh()
            for contestant in (crew.first, *crew.others):
                self._timed(contestant, packed, fully=False)
        self._overhead = []
        return crew

    def _first_call(self, contestant: Contestant, packed: Any, expected: Expected) -> None:
        output = contestant.first_call(packed, lambda: expected.answer(self._data))
        self._check(contestant, output, fully=True)

    def unit(self, first: Contestant, second: Contestant, *, fully: bool) -> Readings:
        """A B on one fresh input, B A on the next; the readings in that order. Raises Failed."""
        walls: list[int] = []
        for order in ((first, second), (second, first)):
            packed = self._fresh()
            walls += [self._timed(contestant, packed, fully=fully) for contestant in order]
        return walls[0], walls[1], walls[2], walls[3]

    def _timed(self, contestant: Contestant, packed: Any, *, fully: bool) -> int:
        """A checked call. A call of nothing in the twin goes before it: otherwise B's second call of a unit would
        follow one of its own process, whose caches are warm, and A's never would."""
        self._overhead.append(self._twin.noop())
        reading, output = contestant.timed(packed)
        self._check(contestant, output, fully=fully)
        return reading.wall_ns

    def _fresh(self) -> Any:
        self._data = self._reference.fresh(self._data, self._spec, self._next_seed())
        return pack_input(self._data, self._request.board)

    def _check(self, contestant: Contestant, output: Any, *, fully: bool) -> None:
        seed = self._seed("spot", contestant.name, self._inputs)
        contestant.check(lambda: self._judges.judge(self._data, output, seed=seed, fully=fully))

    def _next_seed(self) -> int:
        self._inputs += 1
        return self._seed("input", self._inputs)

    def _seed(self, *use: str | int) -> int:
        return self._seeds.derive("compare", self._index, *use)


def no_room(crew: Crew) -> Failed:
    text = f"the device's memory does not hold {crew.processes} processes of each version"
    return Failed(Fault(None, Status.ERROR, Reason(ReasonCode.OUT_OF_MEMORY, text)))

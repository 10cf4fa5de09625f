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
from harness.errors import MachineError
from harness.evaluation.cases import own_out_of_memory, pack_input
from harness.evaluation.expected import Expected
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import Session
from harness.measure.comparison import enough, may_end

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
            self._data = self._reference.generate(self._spec, self._next_seed())
            packed, expected = pack_input(self._data, self._request.board), Expected(self._reference)
            crew, holds_others = self._begin(crew, packed, expected)
            if not holds_others:
                raise no_room(crew)
            self._prepare(crew, packed, expected)
            began = time.perf_counter()
            while not self._enough(crew, null, time.perf_counter() - began):
                null.append(self.unit(*crew.null_pair(len(null)), fully=self._fully(crew, null)))
            while len(paired) < len(null):
                paired.append(self.unit(*crew.pair(len(paired)), fully=self._fully(crew, paired)))
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
            processes=crew.processes,
            fault=fault,
            seconds=time.perf_counter() - started,
        )

    def _enough(self, crew: Crew, null: list[Readings], spent_s: float) -> bool:
        # Units are made of all readings so far, so only where they can end the run.
        return may_end(len(null), crew.processes) and enough(
            units(null, self._overhead), spent_s, self._request.budget_s / 2, crew.processes
        )

    def _fully(self, crew: Crew, done: list[Readings]) -> bool:
        """Every worker's outputs are checked in full at least once."""
        return len(done) < max(FULLY_CHECKED_UNITS, crew.processes)

    def _begin(self, crew: Crew, packed: Any, expected: Expected) -> tuple[Crew, bool]:
        """The first worker with its first call. Returns those of the crew that take part (half of them, or fewer, where
        the first calls of all would take too long, but two of each at least, which tell what processes differ by), and
        whether, as far as what that worker took tells, the device's memory holds them."""
        room = Room(crew.first) if self._cuda else None
        start([crew.first])
        took = self._first_call(crew.first, packed, expected)
        while crew.processes > 2 and took * len(crew.others) > MOST_FIRST_CALLS_S:
            crew = crew.halved()
        return crew, room is None or crew.processes == 1 or room.suffices(crew.others)

    def _prepare(self, crew: Crew, packed: Any, expected: Expected) -> None:
        """The other workers, compiled and tuned kernels, and a few timed calls that do not count. Raises Failed, with
        `out_of_memory`, where workers don't come up for want of room."""
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

    def _first_call(self, contestant: Contestant, packed: Any, expected: Expected) -> float:
        """How many seconds it took, the board's own answer and the check not counted."""
        beside = 0.0

        def answer() -> Any:
            nonlocal beside
            began = time.perf_counter()
            found = expected.answer(self._data)
            beside += time.perf_counter() - began
            return found

        began = time.perf_counter()
        output = contestant.first_call(packed, answer)
        took = time.perf_counter() - began - beside
        self._check(contestant, output, fully=True)
        return took

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

"""What is to be evaluated: a board, a text, and how. Values only, no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.boards.board import Board, GridName, Spec
from harness.errors import RequestError
from harness.evaluation.record import CaseKind, IsolationLevel, Mode, Protocol

# Words of a source that can make machine code at run time. Only a hint for what to prepare: a source that compiles
# without any of them does so in its first, untimed call.
COMPILES = re.compile(
    r"triton|helion|cutlass|\bcute\b|cpp_extension|load_inline|_compile_kernel|torch\.compile|nvrtc|cupy|numba"
)
USES_TRITON = re.compile(r"^\s*(?:import|from)\s+(?:triton|helion)\b", re.MULTILINE)


@dataclass(frozen=True)
class PlannedCase:
    kind: CaseKind
    index: int
    spec: Spec


@dataclass(frozen=True)
class Plan:
    """One evaluation to be made."""

    board: Board
    source: str
    file_name: str
    mode: Mode
    grid: GridName | None = None
    """None: the full grid on a CUDA device, else the CPU grid."""
    protocol: Protocol = Protocol.SEALED
    only: tuple[int, ...] = ()
    """Case numbers to run, of every kind; empty for all."""
    spec: Spec | None = None
    """A shape of the user's own, instead of the grid."""
    seed: int | None = None
    """Root of the seeds; None draws one."""
    fail_fast: bool = False
    isolation: IsolationLevel | None = None
    """None: the strongest that this machine gives."""
    call_timeout_s: float | None = None
    """The longest that one call may take; None: the board's own timeouts."""
    workers: int | None = None
    """How many processes the benchmarks are measured in; None: what `crew_size` says."""

    def cases(self, grid_name: GridName) -> tuple[PlannedCase, ...]:
        """The cases in the order they run. Raises RequestError for a case number that the board lacks."""
        if self.spec is not None:
            kinds = [CaseKind.TEST] if self.mode is Mode.TEST else [CaseKind.BENCHMARK]
            return tuple(PlannedCase(kind, 0, self.spec) for kind in kinds)
        grid = self.board.grid(grid_name)
        planned: list[PlannedCase] = []
        if self.mode is not Mode.BENCHMARK:
            planned += [PlannedCase(CaseKind.TEST, i, spec) for i, spec in enumerate(grid.tests)]
        if self.mode is not Mode.TEST:
            planned += [PlannedCase(CaseKind.BENCHMARK, i, spec) for i, spec in enumerate(grid.benchmarks)]
        last = max((case.index for case in planned), default=-1)
        for index in self.only:
            if not 0 <= index <= last:
                raise RequestError(
                    f"there is no case {index}", where="--case", allowed=f"0 to {last} in mode {self.mode}"
                )
        chosen = tuple(case for case in planned if not self.only or case.index in self.only)
        if not chosen:
            raise RequestError(f"board '{self.board.name}' has no cases for mode {self.mode} on grid {grid_name}")
        return chosen

"""What is to be compiled: a text, a board's cases, architectures. Values only, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.boards.board import Board, Spec
from harness.compiling.architectures import Architecture
from harness.errors import RequestError
from harness.evaluation.record import CaseKind, IsolationLevel

CASE_TIMEOUT_S = 600.0
"""The longest that one case may take to follow; a first compilation of a large CuTe kernel takes minutes."""


@dataclass(frozen=True)
class CompileRequest:
    """One file for some architectures. `board` is None only for CUDA files, which need no inputs."""

    source: str
    file_name: str
    board: Board | None
    architectures: tuple[Architecture, ...]
    only: tuple[int, ...] = ()
    """Case numbers; empty for all of `kind`."""
    kind: CaseKind = CaseKind.BENCHMARK
    isolation: IsolationLevel | None = None
    """None: the strongest that this machine gives."""
    case_timeout_s: float = CASE_TIMEOUT_S
    use_cache: bool = True
    beside: Path | None = None
    """The folder that a CUDA file without a board takes its headers from."""

    def cases(self) -> tuple[tuple[int, Spec], ...]:
        """The cases with their numbers in the board's full grid. Raises RequestError for a number that it lacks."""
        if self.board is None:
            return ()
        grid = self.board.full_grid
        specs = grid.benchmarks if self.kind is CaseKind.BENCHMARK else grid.tests
        for index in self.only:
            if not 0 <= index < len(specs):
                raise RequestError(
                    f"there is no {self.kind} case {index}", where="--case", allowed=f"0 to {len(specs) - 1}"
                )
        return tuple((index, spec) for index, spec in enumerate(specs) if not self.only or index in self.only)

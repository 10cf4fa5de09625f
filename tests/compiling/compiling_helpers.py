"""What the tests of compile mode share beside their fixtures."""

from __future__ import annotations

from harness.compiling.compile import Compiled
from harness.compiling.record import Compilation, Kernel, Problem


def only_kernel(compiled: Compiled) -> Kernel:
    (kernel,) = compiled.compilation.kernels
    return kernel


def unsurvived(compilation: Compilation) -> tuple[Problem, ...]:
    return tuple(problem for problem in compilation.every_problem if not problem.survived)

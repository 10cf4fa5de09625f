"""What the tests of compile mode share beside their fixtures."""

from __future__ import annotations

import importlib.util

import pytest

from harness.compiling.compile import Compiled
from harness.compiling.record import Compilation, Kernel, Problem
from harness.compiling.tools import ToolMissingError, find_tool

NEEDS = {"triton": "triton", "gluon": "triton", "helion": "helion", "cute": "cutlass"}


def only_kernel(compiled: Compiled) -> Kernel:
    (kernel,) = compiled.compilation.kernels
    return kernel


def unsurvived(compilation: Compilation) -> tuple[Problem, ...]:
    return tuple(problem for problem in compilation.every_problem if not problem.survived)


def need(dsl: str) -> None:
    """Skip, loudly, where the DSL of a kernel isn't installed."""
    if dsl in NEEDS:
        if importlib.util.find_spec(NEEDS[dsl]) is None:
            pytest.skip(f"{NEEDS[dsl]} is not installed, so {dsl} kernels can't be compiled here")
        return
    try:
        find_tool("nvcc")
    except ToolMissingError as error:
        pytest.skip(f"{error}; {dsl} kernels can't be compiled here")

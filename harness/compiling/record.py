"""What compile mode says: values only, no torch. The store keeps these, every screen is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.boards.board import Spec
from harness.compiling.occupancy import Occupancy


class Dsl(StrEnum):
    """What a kernel was written in."""

    TRITON = "triton"
    GLUON = "gluon"
    HELION = "helion"
    CUTE = "cute"
    CUDA = "cuda"  # compiled by nvcc: load_inline, load, a .cu file
    NVRTC = "nvrtc"  # compiled at run time: torch.cuda._compile_kernel


class CompileStatus(StrEnum):
    """How the compilation of one case, or of all, ended."""

    COMPILED = "compiled"
    FAILED = "failed"  # a kernel does not compile, or asks for more than the architecture has
    NOT_FOLLOWED = "not_followed"  # the code does something that can't be followed without the device


class ProblemKind(StrEnum):
    COMPILE_ERROR = "compile_error"
    OVER_LIMIT = "over_limit"
    EXCEPTION = "exception"  # the submission's own code raised
    NOT_FOLLOWED = "not_followed"
    GUESS = "guess"  # followed, but by a value that only the device could have given
    NO_KERNELS = "no_kernels"
    CRASH = "crash"
    TIMEOUT = "timeout"
    MISSING = "missing"  # a package or program that the code needs is not here


FAILURES = (ProblemKind.COMPILE_ERROR, ProblemKind.OVER_LIMIT, ProblemKind.EXCEPTION)


@dataclass(frozen=True)
class SourceLine:
    """A line of a file, as the author knows it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """Something that went wrong. `survived` when the submission's own code caught it and went on, or an autotuner
    left the configuration out: such a problem fails nothing."""

    kind: ProblemKind
    message: str
    source: SourceLine | None = None
    kernel: str = ""
    detail: str = ""
    """The compiler's own words or the submission's traceback, whole."""
    survived: bool = False


@dataclass(frozen=True)
class Resources:
    """What a block of a kernel takes. Sizes in bytes; registers a thread; tensor memory in columns.

    `threads` is None where the block's size is only known at the launch and nothing was launched; then
    `most_threads`, the kernel's launch bound, may say how many it can be. `spill_exact` is False where the assembler's
    own count of spills could not be had: then the two figures are 4 bytes for every local load and store, an
    estimate.
    """

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    tensor_memory_columns: int
    threads: int | None
    most_threads: int | None = None
    cluster: tuple[int, int, int] = (1, 1, 1)
    spill_exact: bool = True

    @property
    def spill_bytes(self) -> int:
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def shared_bytes(self) -> int:
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True)
class Kernel:
    """One kernel in one specialisation, as compiled."""

    name: str
    dsl: Dsl
    specialisation: str
    """What sets this one apart from others of its name: constants, warps, stages, alignment."""
    source: SourceLine | None
    resources: Resources
    occupancy: Occupancy | None
    """None where the block's size is not known."""
    instructions: Mapping[str, int]
    """Instructions in the code by class (see `harness.compiling.instructions`)."""
    code_bytes: int
    compile_s: float
    sha256: str
    """Of its machine code and constants."""
    cases: tuple[int, ...] = ()
    launches: int = 0
    autotuned: bool = False
    """One of the configurations that an autotuner would choose from; which one wins is not known here."""
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Names of its artefacts (`ptx`, `sass`, `cubin`) within the compilation's folder."""


@dataclass(frozen=True)
class CompiledCase:
    """One case as it was followed."""

    index: int
    spec: Spec
    problems: tuple[Problem, ...] = ()
    library_calls: Mapping[str, int] = field(default_factory=dict)
    """torch operations on the make-believe device, with their counts: they run library kernels, not the author's."""
    seconds: float = 0.0

    @property
    def status(self) -> CompileStatus:
        return status_of(self.problems)


@dataclass(frozen=True)
class Compilation:
    """A file compiled for one architecture."""

    file_name: str
    source_sha256: str
    leaderboard: str | None
    architecture: str
    kernels: tuple[Kernel, ...]
    cases: tuple[CompiledCase, ...]
    problems: tuple[Problem, ...] = ()
    """Those of no case: at import, or of the whole."""
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cached: bool = False

    @property
    def every_problem(self) -> tuple[Problem, ...]:
        of_cases = [problem for case in self.cases for problem in case.problems]
        return (*self.problems, *of_cases, *(problem for kernel in self.kernels for problem in kernel.problems))

    @property
    def status(self) -> CompileStatus:
        return status_of(self.every_problem)


def status_of(problems: tuple[Problem, ...]) -> CompileStatus:
    """Failed before not followed: an error of the code is certain, whatever else could not be seen."""
    kinds = {problem.kind for problem in problems if not problem.survived}
    if kinds & set(FAILURES):
        return CompileStatus.FAILED
    return CompileStatus.NOT_FOLLOWED if kinds else CompileStatus.COMPILED

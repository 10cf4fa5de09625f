"""What is gathered while a submission runs: kernels with their artefacts, launches, problems, library calls."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from harness.compiling.architectures import Architecture
from harness.compiling.nvcc import CudaCode, CudaCompileError
from harness.compiling.record import Dsl, Problem, ProblemKind, SourceLine

MOST_DETAIL_CHARS = 20_000
_OWN = os.sep + os.path.join("harness", "compiling") + os.sep


class NotFollowedError(Exception):
    """The code needs something that only a real device could give; the text says what."""


@dataclass
class FoundKernel:
    """A kernel as a compiler left it, before it is analysed. Sizes that the compiler told beside the cubin are None
    where it told nothing."""

    name: str
    entry: str
    """Its symbol in the cubin."""
    dsl: Dsl
    cubin: bytes
    ptx: str
    specialisation: str
    source: SourceLine | None
    compile_s: float
    dynamic_shared_bytes: int = 0
    shared_is_total: bool = False
    """Whether `dynamic_shared_bytes` is all shared memory, as Triton counts it."""
    tensor_memory_columns: int | None = None
    threads: int | None = None
    cluster: tuple[int, int, int] | None = None
    log: str = ""
    """The assembler's words, where they were kept."""
    assembler_options: tuple[str, ...] = ()
    autotuned: bool = False
    cases: set[int] = field(default_factory=set)
    launches: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def shape(self) -> tuple[object, ...]:
        """What a launch decides of a kernel's report."""
        return self.threads, self.dynamic_shared_bytes, self.cluster


class Collector:
    """Thread-safe: compilers may run in threads of their own."""

    def __init__(self, architecture: Architecture, code: Path, shown_as: dict[str, str]) -> None:
        self.architecture = architecture
        self.code = code.resolve()
        self._shown_as = shown_as
        """The author's own name of a file, by its name in `code`."""
        self.case: int | None = None
        self.kernels: dict[str, FoundKernel] = {}
        self.problems: dict[int | None, list[Problem]] = {}
        self.library: dict[int | None, Counter[str]] = {}
        self.dsls_seen: set[str] = set()
        self.cuda_builds: dict[str, CudaCode | CudaCompileError] = {}
        """What became of CUDA sources: each case asks for the same builds, and one takes seconds."""
        self.tell: Callable[[dict[str, Any]], None] = lambda message: None
        """Reaches the supervisor while the work goes on."""
        self._lock = threading.RLock()

    @contextmanager
    def compiling(self, kernel: str, source: SourceLine | None) -> Iterator[None]:
        """Within, a crash of this process is this kernel's: a compiler that aborts takes us along."""
        line = [source.file, source.line] if source else None
        self.tell({"compiling": kernel, "line": line})
        yield
        self.tell({"compiling": None, "line": None})

    def building(self, name: str) -> None:
        """A build by nvcc begins, which may take a minute. Builds go on in threads, and the channel is one."""
        with self._lock:
            self.tell({"nvcc": name})

    def add(self, key: str, kernel: FoundKernel) -> None:
        """Keep a kernel under a key that tells its specialisation; a second one of that key is the same."""
        with self._lock:
            known = self.kernels.setdefault(key, kernel)
            if self.case is not None:
                known.cases.add(self.case)

    def launched(self, key: str, *, threads: int | None = None, dynamic_shared_bytes: int | None = None) -> None:
        """Count a launch. The same kernel launched with other blocks is kept apart."""
        with self._lock:
            kernel = self.kernels.get(key)
            if kernel is None:
                return
            if threads is not None and kernel.threads not in (None, threads):
                key = f"{key}/{threads}"
                if key not in self.kernels:
                    copy = FoundKernel(**{**kernel.__dict__, "cases": set(), "launches": 0, "threads": threads})
                    self.kernels[key] = copy
                kernel = self.kernels[key]
            if threads is not None:
                kernel.threads = threads
            if dynamic_shared_bytes is not None:
                kernel.dynamic_shared_bytes = max(kernel.dynamic_shared_bytes, dynamic_shared_bytes)
            kernel.launches += 1
            if self.case is not None:
                kernel.cases.add(self.case)

    def problem(
        self,
        kind: ProblemKind,
        message: str,
        *,
        source: SourceLine | None = None,
        kernel: str = "",
        detail: str = "",
        survived: bool = False,
    ) -> Problem:
        """Note a problem of the present case; the same one twice is noted once."""
        found = Problem(kind, message[:2000], source, kernel, detail[-MOST_DETAIL_CHARS:], survived)
        with self._lock:
            problems = self.problems.setdefault(self.case, [])
            same = [p for p in problems if (p.kind, p.message, p.source) == (kind, found.message, source)]
            if not same:
                problems.append(found)
        return found

    def all_survived(self, but: tuple[Problem, ...] = ()) -> None:
        """The present case went on after its compile errors (other than `but`): the code caught them."""
        with self._lock:
            problems = self.problems.get(self.case, [])
            problems[:] = [
                replace(p, survived=True) if p.kind is ProblemKind.COMPILE_ERROR and p not in but else p
                for p in problems
            ]

    def library_call(self, name: str) -> None:
        with self._lock:
            self.library.setdefault(self.case, Counter())[name] += 1

    def shown(self, path: str) -> str | None:
        """The author's name of a file of the submission; None for any other file."""
        try:
            inside = Path(path).resolve().relative_to(self.code)
        except (ValueError, OSError):
            return None
        return self._shown_as.get(str(inside), str(inside))

    def line_of(self, path: str, line: int) -> SourceLine | None:
        name = self.shown(path)
        return None if name is None else SourceLine(name, line)

    def user_line(self) -> SourceLine | None:
        """The line of the submission that is being executed, innermost."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = self.shown(frame.f_code.co_filename)
            if name is not None:
                return SourceLine(name, frame.f_lineno)
            frame = frame.f_back
        return None

    def line_of_exception(self, error: BaseException) -> SourceLine | None:
        """The innermost line of the submission in an exception's traceback."""
        if isinstance(error, SyntaxError) and error.filename and error.lineno:
            return self.line_of(error.filename, error.lineno)
        found = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            found = self.line_of(frame.f_code.co_filename, line) or found
        return found

    def find_text(self, text: str) -> SourceLine | None:
        """Where a line of generated code stands in the submission; None unless exactly one line holds it."""
        wanted = text.strip()
        if len(wanted) < 4:
            return None
        found = []
        for path in sorted(self.code.rglob("*")):
            if path.suffix not in (".py", ".cu", ".cuh", ".h", ".cpp"):
                continue
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            found += [
                SourceLine(self.shown(str(path)) or path.name, i) for i, line in enumerate(lines, 1) if wanted in line
            ]
        return found[0] if len(found) == 1 else None


def told_traceback(error: BaseException) -> str:
    """An exception's traceback without our own frames."""
    told = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = told
    seen: set[int] = set()
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        part.stack = traceback.StackSummary.from_list([f for f in part.stack if not own_file(f.filename)])
        part = part.__cause__ or part.__context__
    return "".join(told.format())


def own_file(path: str) -> bool:
    return _OWN in path or "/harness/wire/" in path or "/harness/worker/" in path


def digest(*parts: Any) -> str:
    told = hashlib.sha256()
    for part in parts:
        told.update(part if isinstance(part, bytes) else repr(part).encode())
        told.update(b"\0")
    return told.hexdigest()

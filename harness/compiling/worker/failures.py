"""What an exception that left the submission means: a compile error, a limit, the code's own fault, or the end of what
can be followed here."""

from __future__ import annotations

import re
import traceback

from harness.compiling.record import Problem, ProblemKind, SourceLine
from harness.compiling.worker.collect import Collector, NotFollowedError, own_file, told_traceback

HOW_TO_GET = {
    "triton": "pip install triton",
    "helion": "pip install helion",
    "cutlass": "pip install nvidia-cutlass-dsl",
    "cuda": "pip install cuda-python",
    "cupy": "pip install cupy-cuda13x",
    "numba": "pip install numba-cuda",
    "ninja": "pip install ninja",
}
_TRACING = ("/cutlass/base_dsl/", "/cutlass/cutlass_dsl/", "/helion/_compiler/")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NOT_HERE = (
    "not linked with support for cuda",
    "not compiled with cuda",
    "cuda driver",
    "libcuda",
    "no kernel image",
    "no nvidia driver",
    "arguments from the 'cuda' backend",
    "could not find any nvrtc",
    "dlpack",
)
"""Words of errors that torch and the DSLs raise where a real device or driver is missing."""


def note_exception(collector: Collector, error: BaseException, doing: str) -> None:
    """Record what ended the present case (or the import, with `doing` to say so)."""
    chain = _chain(error)
    noted: list[Problem] = []
    for each in chain:
        noted += getattr(each, "_harness_problems", [])
        single = getattr(each, "_harness_problem", None)
        if single is not None and single not in noted:
            noted.append(single)
    collector.all_survived(but=tuple(noted))
    if noted:
        return
    source = _line_in_text(collector, chain) or collector.line_of_exception(error)
    text = f"{doing}: {_first_line(error)}" if doing else _first_line(error)
    kind, text = _judged(chain, text)
    collector.problem(kind, text, source=source, detail=told_traceback(error))


def _line_in_text(collector: Collector, chain: list[BaseException]) -> SourceLine | None:
    """The author's line where a compiler names it in its words, which know more than the traceback."""
    for error in chain:
        found = [collector.line_of(m.group("file"), int(m.group("line"))) for m in _FRAME.finditer(str(error))]
        lines = [line for line in found if line is not None]
        if lines:
            return lines[-1]
    return None


def _judged(chain: list[BaseException], text: str) -> tuple[ProblemKind, str]:
    for error in chain:
        if isinstance(error, NotFollowedError):
            return ProblemKind.NOT_FOLLOWED, str(error)
        if isinstance(error, ModuleNotFoundError):
            package = (error.name or "").partition(".")[0]
            how = HOW_TO_GET.get(package, "")
            return ProblemKind.MISSING, f"the module {error.name} is not here" + (f": {how}" if how else "")
        if type(error).__name__ == "OutOfResources":
            return ProblemKind.OVER_LIMIT, text
    error = chain[0]
    if isinstance(error, MemoryError) or _raised_by_us(error) or any(word in str(error).lower() for word in _NOT_HERE):
        return ProblemKind.NOT_FOLLOWED, text
    if any(_within_compiler(each) for each in chain):
        return ProblemKind.COMPILE_ERROR, text
    if isinstance(error, AttributeError) and "torch" in str(error) and "cuda" in str(error):
        return ProblemKind.NOT_FOLLOWED, text
    return ProblemKind.EXCEPTION, text


def _within_compiler(error: BaseException) -> bool:
    """Whether a DSL that traces Python was at work: what is raised then is raised by a kernel's own text."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(folder in file for file in files for folder in _TRACING)


def _raised_by_us(error: BaseException) -> bool:
    """Whether the innermost frame is the make-believe device's own: then it is what failed, not the code."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and own_file(frames[-1])


def _chain(error: BaseException) -> list[BaseException]:
    """An exception and what caused it, outermost first."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found:
        found.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return found


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__

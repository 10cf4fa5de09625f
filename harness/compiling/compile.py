"""Compile a file for architectures that are not here: the supervisor's side.

The submission runs in sandboxed workers without a device, several at once; what they leave is read as data by somebody
else, bounded and checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.boards.board import Language, Spec
from harness.compiling.architectures import Architecture
from harness.compiling.cache import ResultCache, key_of, versions
from harness.compiling.jobs import Jobs, Part, headers
from harness.compiling.record import Compilation, Kernel, Problem, ProblemKind
from harness.compiling.request import CompileRequest
from harness.compiling.workplace import Workplace
from harness.sandbox import best_level

LOOKED_FOR = "Triton, Gluon and Helion kernels, CuTe DSL, load_inline and load, torch.cuda._compile_kernel"
PRELOADED = {"triton": r"\b(?:triton|helion)\b"}
"""Packages that every worker of a file would import, by the words that give them away: imported once, before a fork."""


@dataclass(frozen=True)
class Compiled:
    """A compilation and its artefacts, by the names that its kernels' `files` give."""

    compilation: Compilation
    artefacts: dict[str, bytes] = field(default_factory=dict)


def compile_file(
    request: CompileRequest,
    *,
    cache_folder: Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
    workplace: Workplace | None = None,
) -> tuple[Compiled, ...]:
    """Compile for every architecture asked for, in their order. What is known from before is taken from `cache_folder`.

    `workplace` may be a warm one of the caller's, which is then left open.

    Raises RequestError for a request that can't be met, MachineError where this machine lacks what it takes. What is
    wrong with the submission is in the result.
    """
    cases = request.cases()
    cache = ResultCache(cache_folder) if cache_folder is not None else None
    keys = {each.name: _key(request, each, cases) for each in request.architectures}
    found: dict[str, Compiled] = {}
    for name, key in keys.items() if request.use_cache else ():
        kept = cache.get(key) if cache is not None else None
        if kept is not None:
            found[name] = Compiled(replace(kept[0], cached=True), kept[1])
    missing = [each for each in request.architectures if each.name not in found]
    if missing:
        with contextlib.nullcontext(workplace) if workplace else _own_workplace(request) as place:
            for compiled in _compile(request, missing, cases, place, progress):
                found[compiled.compilation.architecture] = compiled
                if cache is not None:
                    cache.put(keys[compiled.compilation.architecture], compiled.compilation, compiled.artefacts)
    return tuple(found[each.name] for each in request.architectures)


def _own_workplace(request: CompileRequest) -> Workplace:
    preload = [name for name, words in PRELOADED.items() if re.search(words, request.source)]
    return Workplace(request.isolation or best_level(), preload)


def _key(request: CompileRequest, architecture: Architecture, cases: Sequence[tuple[int, Spec]]) -> str:
    board = request.board
    files = {}
    for file in board.files if board is not None else ():
        if file.source is not None:
            files[file.name] = hashlib.sha256(file.source.read_bytes()).hexdigest()
    for path in headers(request.beside):
        files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return key_of(
        source=request.source,
        file_name=request.file_name,
        files=files,
        board=board.name if board is not None else None,
        cuda=str(board.cuda) if board is not None else None,
        architecture=architecture.name,
        cases=[[index, dict(spec)] for index, spec in cases],
        kind=request.kind,
    )


def _compile(
    request: CompileRequest,
    architectures: Sequence[Architecture],
    cases: Sequence[tuple[int, Spec]],
    workplace: Workplace,
    progress: Callable[[str], None],
) -> list[Compiled]:
    base = workplace.fresh_folder("job")
    jobs = Jobs(request, workplace, progress, base)
    cores = os.cpu_count() or 1
    if request.board is None or request.board.language is Language.CUDA:
        jobs.lay_out_cuda()
        groups: list[list[tuple[int, Spec]]] = [[]]
    else:
        jobs.lay_out_python(request.board, cases, architectures[0])
        groups = _split(list(cases), max(1, cores // len(architectures)))
    work = [(architecture, group) for architecture in architectures for group in groups]
    started = time.monotonic()
    with ThreadPoolExecutor(max_workers=cores) as pool:
        parts = list(pool.map(lambda item: jobs.run(*item), work))
    seconds = time.monotonic() - started
    by_name: dict[str, list[Part]] = {}
    for (architecture, _), part in zip(work, parts, strict=True):
        by_name.setdefault(architecture.name, []).append(part)
    return [_merged(request, name, found, seconds) for name, found in by_name.items()]


def _merged(request: CompileRequest, architecture: str, parts: list[Part], seconds: float) -> Compiled:
    """One compilation of several workers' parts: the same kernel found twice is one."""
    kernels: dict[tuple[object, ...], Kernel] = {}
    for kernel in (kernel for part in parts for kernel in part.kernels):
        key = (kernel.name, kernel.dsl, kernel.specialisation, kernel.sha256, kernel.resources)
        known = kernels.get(key)
        kernels[key] = kernel if known is None else _joined(known, kernel)
    ordered = sorted(kernels.values(), key=lambda each: (each.cases, each.name, each.specialisation))
    cases = tuple(sorted((case for part in parts for case in part.cases), key=lambda case: case.index))
    problems = list(dict.fromkeys(problem for part in parts for problem in part.problems))
    told = [*problems, *(problem for case in cases for problem in case.problems)]
    if not ordered and all(problem.kind is ProblemKind.GUESS for problem in told):
        problems.append(Problem(ProblemKind.NO_KERNELS, f"no kernels found; looked for {_looked_for(request)}"))
    used = {name for kernel in ordered for name in kernel.files.values()}
    compilation = Compilation(
        file_name=request.file_name,
        source_sha256=hashlib.sha256(request.source.encode()).hexdigest(),
        leaderboard=request.board.name if request.board is not None else None,
        architecture=architecture,
        kernels=tuple(ordered),
        cases=cases,
        problems=tuple(problems),
        versions=versions(),
        seconds=round(seconds, 3),
    )
    artefacts = {name: content for part in parts for name, content in part.artefacts.items() if name in used}
    return Compiled(compilation, artefacts)


def _joined(one: Kernel, other: Kernel) -> Kernel:
    """The same kernel as two workers met it."""
    return replace(
        one,
        cases=tuple(sorted({*one.cases, *other.cases})),
        launches=one.launches + other.launches,
        autotuned=one.autotuned and other.autotuned,
    )


def _looked_for(request: CompileRequest) -> str:
    cuda = request.board is None or request.board.language is Language.CUDA
    return "__global__ functions in the CUDA sources" if cuda else LOOKED_FOR


def _split(cases: list[tuple[int, Spec]], groups: int) -> list[list[tuple[int, Spec]]]:
    """The cases dealt to at most so many groups, none of them empty (but one where there are no cases)."""
    dealt = [cases[start::groups] for start in range(min(groups, len(cases)))]
    return dealt or [[]]

"""Compile a file for architectures that are not here: the supervisor's side.

The submission runs in sandboxed workers without a device, several at once; what they leave is read as data by somebody
else, bounded and checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.boards.board import Board, Language, Spec
from harness.boards.task_files import write_task_files
from harness.compiling.architectures import Architecture
from harness.compiling.cache import ResultCache, key_of, versions
from harness.compiling.jsonable import RecordError, from_dict
from harness.compiling.record import Compilation, CompiledCase, Kernel, Problem, ProblemKind, SourceLine
from harness.compiling.request import CompileRequest
from harness.compiling.workplace import LOG, Workplace, make_folder, read_artefact
from harness.errors import MachineError, RequestError
from harness.evaluation.host import submission_file, support_files
from harness.evaluation.record import ReasonCode
from harness.evaluation.workers import WorkerFault
from harness.sandbox import best_level

LOOKED_FOR = "Triton, Gluon and Helion kernels, CuTe DSL, load_inline and load, torch.cuda._compile_kernel"
PRELOADED = {"triton": r"\b(?:triton|helion)\b"}
"""Packages that every worker of a file would import, by the words that give them away: imported once, before a fork."""
COMPILER_ENDED = "the compiler itself ended"
_MLIR_ERROR = re.compile(r"\b(?:error|LLVM ERROR): (.+)$|\b(Assertion .+ failed)\.?$", re.MULTILINE)
_HEADERS = (".h", ".hpp", ".cuh", ".inc")
_MOST_HEADERS = 200


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
    for path in _headers(request.beside):
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
    jobs = _Jobs(request, workplace, progress, base)
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
    by_name: dict[str, list[_Part]] = {}
    for (architecture, _), part in zip(work, parts, strict=True):
        by_name.setdefault(architecture.name, []).append(part)
    return [_merged(request, name, found, seconds) for name, found in by_name.items()]


@dataclass
class _Part:
    """What one worker found."""

    kernels: list[Kernel] = field(default_factory=list)
    cases: list[CompiledCase] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    artefacts: dict[str, bytes] = field(default_factory=dict)


class _Jobs:
    """Makes workers' requests, and reads what they leave."""

    def __init__(
        self, request: CompileRequest, workplace: Workplace, progress: Callable[[str], None], base: Path
    ) -> None:
        self._request, self._workplace, self._progress, self._base = request, workplace, progress, base
        self._code = make_folder(base / "code")
        self._message: dict[str, Any] = {}
        self._readable: list[Path] = []
        self._inputs: dict[int, dict[str, str]] = {}

    def lay_out_cuda(self) -> None:
        """The sources of a CUDA file or board."""
        request, board = self._request, self._request.board
        options: list[str] = []
        include_dirs: tuple[str, ...] = ()
        if board is None or board.cuda is None:
            (self._code / request.file_name).write_text(request.source)
            for path in _headers(request.beside):
                shutil.copy(path, self._code / path.name)
            sources: tuple[str, ...] = (request.file_name,)
            shown: dict[str, str] = {}
        else:
            write_task_files(board, self._code, request.source)
            own = submission_file(board)
            shown = {own: request.file_name}
            sources = tuple(dict.fromkeys(name for name in board.cuda.sources if name.endswith(".cu"))) or (own,)
            include_dirs = board.cuda.include_dirs
            options = [f"-D{key}={value}" if value else f"-D{key}" for key, value in board.cuda.defines.items()]
            options += board.cuda.compile_flags
        self._message = {
            "op": "cuda",
            "code": str(self._code),
            "sources": list(sources),
            "include_dirs": list(include_dirs),
            "options": options,
            "shown_as": shown,
        }

    def lay_out_python(self, board: Board, cases: Sequence[tuple[int, Spec]], architecture: Architecture) -> None:
        """The submission beside the board's support files, and the inputs of all cases."""
        names = {*support_files(board), submission_file(board)}
        write_task_files(board, self._code, self._request.source, names)
        self._message = {
            "op": "compile",
            "code": str(self._code),
            "file": submission_file(board),
            "support": [name.removesuffix(".py") for name in support_files(board) if name.endswith(".py")],
            "shown_as": {submission_file(board): self._request.file_name},
        }
        out = make_folder(self._base / "inputs")
        request = {
            "op": "inputs",
            "board": str(board.folder),
            "architecture": architecture.name,
            "cases": [{"index": index, "spec": dict(spec)} for index, spec in cases],
            "out": str(out),
        }
        self._progress(f"inputs of {len(cases)} cases")
        try:
            answer = self._workplace.run(
                "inputs", request, code=None, readable=[], out=out, timeout_s=self._request.case_timeout_s
            )
        except WorkerFault as fault:
            raise MachineError(
                f"the inputs of board '{board.name}' can't be made here: {fault.reason.message}", hint=fault.traceback
            ) from None
        self._inputs = {told["index"]: told for told in answer["inputs"]}
        self._readable = [out]

    def run(self, architecture: Architecture, cases: list[tuple[int, Spec]]) -> _Part:
        """One worker for one architecture and some cases."""
        part = _Part()
        request = {**self._message, "architecture": architecture.name}
        if self._message["op"] == "compile":
            told = []
            for index, spec in cases:
                made = self._inputs[index]
                if "error" in made:
                    text = f"the board's input can't be made without a device: {made['error']}"
                    problem = Problem(ProblemKind.NOT_FOLLOWED, text)
                    part.cases.append(CompiledCase(index, spec, (problem,)))
                else:
                    told.append({"index": index, "spec": dict(spec), "input": made["folder"]})
            request["cases"] = told
        name = f"{architecture.name}-{cases[0][0] if cases else 0}"
        out = make_folder(self._base / f"out-{name}")
        news: dict[str, Any] = {}
        log = ""

        def on_news(told: dict[str, Any]) -> None:
            news.update(told)
            if "case" in told:
                self._progress(f"{architecture.name}: case {told['case']}")

        self._progress(f"{architecture.name}: starting")
        try:
            answer = self._workplace.run(
                name,
                {**request, "out": str(out)},
                code=self._code,
                readable=self._readable,
                out=out,
                timeout_s=self._request.case_timeout_s,
                on_news=on_news,
            )
            log = answer[LOG]
        except WorkerFault as fault:
            log = fault.traceback
            problem = _cut_short(fault, news)
            met = [CompiledCase(index, spec, (problem,)) for index, spec in cases if index == news.get("case")]
            part.cases += met
            part.problems += [] if met else [problem]
        self._read(out, part)
        part.problems = [_explained(problem, log) for problem in part.problems]
        part.cases = [
            replace(case, problems=tuple(_explained(problem, log) for problem in case.problems)) for case in part.cases
        ]
        return part

    def _read(self, out: Path, part: _Part) -> None:
        """What the worker wrote; it may be anything, and nothing at all after a crash."""
        try:
            told = json.loads(read_artefact(out, "result.json"))
            kernels = [from_dict(Kernel, each) for each in told["kernels"]]
            part.cases += [from_dict(CompiledCase, each) for each in told["cases"]]
            part.problems += [from_dict(Problem, each) for each in told["problems"]]
        except (OSError, ValueError, TypeError, KeyError, RecordError, RecursionError) as error:
            if not part.problems and not part.cases:
                part.problems.append(Problem(ProblemKind.CRASH, f"the worker left no readable result: {error}"))
            return
        for kernel in kernels:
            files = {}
            for kind, name in kernel.files.items():
                try:
                    # Names of several workers' files meet in one compilation.
                    files[kind] = f"{out.name.removeprefix('out-')}-{name}"
                    part.artefacts[files[kind]] = read_artefact(out, name)
                except OSError:
                    del files[kind]
            part.kernels.append(replace(kernel, files=files))


def _cut_short(fault: WorkerFault, news: dict[str, Any]) -> Problem:
    """What the end of a worker means. A compiler that aborts takes the worker along: then it is the kernel's error."""
    kernel, line = news.get("compiling"), news.get("line")
    source = SourceLine(str(line[0]), int(line[1])) if isinstance(line, list) and len(line) == 2 else None
    if fault.reason.code is ReasonCode.TIMEOUT:
        return Problem(ProblemKind.TIMEOUT, fault.reason.message, source, str(kernel or ""), fault.traceback)
    if kernel:
        text = f"{COMPILER_ENDED}: {fault.reason.message}"
        return Problem(ProblemKind.COMPILE_ERROR, text, source, str(kernel), fault.traceback)
    return Problem(ProblemKind.CRASH, fault.reason.message, detail=fault.traceback)


def _explained(problem: Problem, log: str) -> Problem:
    """Triton's passes say why they fail on standard error alone, as MLIR's diagnostics and assertions do."""
    if "PassManager::run failed" not in problem.message and not problem.message.startswith(COMPILER_ENDED):
        return problem
    told = list(dict.fromkeys((match.group(1) or match.group(2)).strip() for match in _MLIR_ERROR.finditer(log)))
    telling = [text for text in told if "while processing an MLIR pass pipeline" not in text]
    if not telling:
        return problem
    return replace(problem, message=f"{problem.message}: {telling[0]}", detail="\n".join(telling))


def _merged(request: CompileRequest, architecture: str, parts: list[_Part], seconds: float) -> Compiled:
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


def _headers(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    found = sorted(path for path in folder.iterdir() if path.suffix in _HEADERS and path.is_file())
    if len(found) > _MOST_HEADERS:
        raise RequestError(
            f"{len(found)} headers beside the file", where=str(folder), allowed=f"at most {_MOST_HEADERS}"
        )
    return found

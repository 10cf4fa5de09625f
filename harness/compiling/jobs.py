"""The workers of one compilation: what each is told, and what it leaves, read as data by somebody else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.boards.board import Board, Spec
from harness.boards.task_files import write_task_files
from harness.compiling.architectures import Architecture
from harness.compiling.jsonable import RecordError, from_dict
from harness.compiling.record import CompiledCase, Kernel, Problem, ProblemKind, SourceLine
from harness.compiling.request import CompileRequest
from harness.compiling.workplace import LOG, Workplace, make_folder, read_artefact
from harness.errors import MachineError, RequestError
from harness.evaluation.host import submission_file, support_files
from harness.evaluation.record import ReasonCode
from harness.evaluation.workers import WorkerFault
from harness.wording import counted

COMPILER_ENDED = "the compiler itself ended"
_MLIR_ERROR = re.compile(r"\b(?:error|LLVM ERROR): (.+)$|\b(Assertion .+ failed)\.?$", re.MULTILINE)
_HEADERS = (".h", ".hpp", ".cuh", ".inc")
_MOST_HEADERS = 200


@dataclass
class Part:
    """What one worker found."""

    kernels: list[Kernel] = field(default_factory=list)
    cases: list[CompiledCase] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    artefacts: dict[str, bytes] = field(default_factory=dict)


class Jobs:
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
            for path in headers(request.beside):
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
        self._progress(f"inputs of {counted(len(cases), 'case')}")
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

    def run(self, architecture: Architecture, cases: list[tuple[int, Spec]]) -> Part:
        """One worker for one architecture and some cases."""
        part = Part()
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
            if "nvcc" in told:
                self._progress(f"{architecture.name}: nvcc: {told['nvcc']}")

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

    def _read(self, out: Path, part: Part) -> None:
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


def headers(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    found = sorted(path for path in folder.iterdir() if path.suffix in _HEADERS and path.is_file())
    if len(found) > _MOST_HEADERS:
        raise RequestError(
            f"{len(found)} headers beside the file", where=str(folder), allowed=f"at most {_MOST_HEADERS}"
        )
    return found

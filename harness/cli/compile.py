"""`harness compile FILE`: what every kernel of a file costs on a GPU that is not here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.boards.board import Board, Language
from harness.boards.directives import EXTENSIONS, Directives, parse_directives, read_submission
from harness.boards.find import find_board
from harness.cli.common import FilePath, Number, WholeNumber, json_option, print_json, say, stdout_console
from harness.cli.lookup import is_id, recorded_board
from harness.cli.preflight import warn_of_other_gpus
from harness.compiling.architectures import ARCHITECTURES, Architecture, architecture_of_gpu, find_architecture
from harness.compiling.record import CompileStatus, ProblemKind
from harness.compiling.request import CASE_TIMEOUT_S, CompileRequest
from harness.errors import ExitStatus, MachineError, RequestError
from harness.evaluation.record import CaseKind, IsolationLevel
from harness.files import absolute_path, unwritable

if TYPE_CHECKING:
    from harness.compiling.compile import Compiled

DEFAULT_ARCHITECTURE = "sm_100a"


@click.command("compile")
@click.argument("file", metavar="FILE|ID")
@click.option(
    "--board", "--leaderboard", "board_name", metavar="BOARD", help="Whose cases to follow; else the header's."
)
@click.option(
    "--case", "cases", type=WholeNumber(0), multiple=True, metavar="I", help="Only this case; may be repeated."
)
@click.option("--tests", is_flag=True, help="Follow the cases of the tests grid instead of the benchmarks.")
@click.option(
    "--arch",
    "arch",
    metavar="ARCH[,ARCH]",
    multiple=True,
    help=f"Among {', '.join(ARCHITECTURES)}, or a GPU such as H100; may be repeated. "
    f"Default: those of the header's GPUs, else {DEFAULT_ARCHITECTURE}.",
)
@click.option("--ptx", "ptx_folder", type=FilePath(), metavar="DIR", help="Write every kernel's PTX there.")
@click.option("--sass", "sass_folder", type=FilePath(), metavar="DIR", help="And its disassembly.")
@click.option(
    "--timeout", "timeout_s", type=Number(1), default=CASE_TIMEOUT_S, metavar="S", show_default=True,
    help="Most seconds that one case may take.",
)  # fmt: skip
@click.option("--no-cache", is_flag=True, help="Compile again what is known.")
@click.option(
    "--isolation",
    type=click.Choice([level.value for level in IsolationLevel if level is not IsolationLevel.UNKNOWN]),
    help="Default: the strongest.",
)
@click.option("-v", "--verbose", is_flag=True, help="Every kernel's specialisation and instruction mix.")
@json_option
def compile_command(
    file: str,
    board_name: str | None,
    cases: tuple[int, ...],
    tests: bool,
    arch: tuple[str, ...],
    ptx_folder: Path | None,
    sass_folder: Path | None,
    timeout_s: float,
    no_cache: bool,
    isolation: str | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Compile every kernel that a file launches, for a GPU that need not be here, and show what it costs there.

    All digits are the id of a submission, and what is no file may be a tag of yours. What is said of a submission's
    source on all of its board's cases is kept beside it, for `show` and `diff`.

    \b
    harness compile kernel.py --arch sm_100a
    harness compile 12 --arch sm_100a
    harness compile kernel.py --arch sm_90a,sm_100a --case 0 --sass out
    harness compile kernel.cu --arch sm_120a --json

    Nothing runs on a device: launches go as far as the compiler. Exit status: 0 everything compiles and fits; 1 a
    kernel does not; 2 the request was wrong, or no kernel was found; 3 something can't be followed here.
    """
    from harness.compiling.compile import compile_file
    from harness.store.location import home

    operand = _operand(file, board_name)
    directives = parse_directives(operand.source, operand.name)
    for warning in directives.warnings:
        say(f"warning: {warning}")
    board = _board(operand, board_name, directives)
    if board is not None:
        warn_of_other_gpus(directives.gpus, board)
    request = CompileRequest(
        source=operand.source,
        file_name=operand.name,
        board=board,
        architectures=_architectures(arch, directives, board),
        only=tuple(dict.fromkeys(cases)),
        kind=CaseKind.TEST if tests else CaseKind.BENCHMARK,
        isolation=IsolationLevel(isolation) if isolation else None,
        case_timeout_s=timeout_s,
        use_cache=not no_cache,
        beside=operand.folder if board is None else None,
    )
    if board is None and cases:
        raise RequestError(
            "a CUDA file without a board has no cases", where="--case", hint="Name the board with --board."
        )
    compiled = compile_file(request, cache_folder=home() / "compiled", progress=lambda text: say(f"  {text}"))
    if board is not None and not cases and not tests:
        from harness.compiling.kept import keep

        try:
            keep([each.compilation for each in compiled])
        except MachineError as error:  # what was found out is told all the same
            say(f"warning: it is not kept: {error}")
    for folder, kind in ((ptx_folder, "ptx"), (sass_folder, "sass")):
        if folder is not None:
            _write_files(folder, kind, compiled)
    if as_json:
        from harness.cli.compile_report import compilation_document

        print_json({"compilations": [compilation_document(each.compilation) for each in compiled]})
    else:
        from harness.cli.compile_report import render_compilation

        console = stdout_console()
        for each in compiled:
            render_compilation(console, each.compilation, verbose=verbose)
    return _exit_status(compiled)


@dataclass(frozen=True)
class _Operand:
    """What is compiled: a file's text, or a submission's. `folder` is where a file's headers are."""

    source: str
    name: str
    shown: str
    leaderboard: str | None = None
    folder: Path | None = None

    @property
    def is_cuda(self) -> bool:
        return self.name.endswith(EXTENSIONS[Language.CUDA])


def _operand(text: str, board: str | None) -> _Operand:
    if is_id(text) or not os.path.exists(text):  # what a file says does not take a store
        from harness.cli.operands import submission_named
        from harness.store import open_reader

        with open_reader() as reader:
            named = None if board is None or is_id(text) else recorded_board(reader, board)
            submission = submission_named(reader, text, board=named)
            if submission is not None:
                source = reader.source(submission.sha256)
                shown = f"submission {submission.id}"
                return _Operand(source, submission.file_name, shown, submission.leaderboard)
    path = Path(text)
    return _Operand(read_submission(path), path.name, text, folder=absolute_path(path.parent))


def _board(operand: _Operand, option: str | None, directives: Directives) -> Board | None:
    """The board whose cases are followed; None for a CUDA file that names none."""
    name = option or operand.leaderboard or directives.leaderboard
    if name is None:
        if operand.is_cuda:
            return None
        raise RequestError(
            "no leaderboard is named, so there are no inputs to follow the code with",
            where=operand.shown,
            hint="Begin the file with `#!POPCORN leaderboard NAME`, or add --board NAME; `harness boards` lists them.",
        )
    board = find_board(name)
    if operand.is_cuda and board.language is Language.PYTHON:
        return None
    if not operand.name.endswith(EXTENSIONS[board.language]):
        what = f"board '{board.name}' takes {', '.join(EXTENSIONS[board.language])} files"
        raise RequestError(what, where=operand.shown)
    if board.multi_gpu:
        raise MachineError(f"board '{board.name}' runs on several GPUs; compile mode has one make-believe device")
    return board


def _architectures(option: Sequence[str], directives: Directives, board: Board | None) -> tuple[Architecture, ...]:
    if option:
        names = [name for part in option for name in part.split(",") if name.strip()]
        if not names:
            raise RequestError("names no architecture", where="--arch", allowed=", ".join(ARCHITECTURES))
        return tuple(dict.fromkeys(find_architecture(name) for name in names))
    gpus = directives.gpus or (board.gpus if board is not None else ())
    found = [architecture for architecture in map(architecture_of_gpu, gpus) if architecture is not None]
    return tuple(dict.fromkeys(found)) or (ARCHITECTURES[DEFAULT_ARCHITECTURE],)


def _write_files(folder: Path, kind: str, compiled: Sequence[Compiled]) -> None:
    """One file a kernel, named after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in compiled:
            for number, kernel in enumerate(each.compilation.kernels):
                content = each.artefacts.get(kernel.files.get(kind, ""))
                if content is None:
                    continue
                name = "".join(c if c.isalnum() or c in "_-" else "_" for c in kernel.name)[:80]
                path = folder / f"{each.compilation.architecture}-{number:02d}-{name}.{kind}"
                path.write_bytes(content)
                say(f"wrote {path}")
    except OSError as error:
        raise unwritable(Path(error.filename or folder), error) from error


def _exit_status(compiled: Sequence[Compiled]) -> int:
    problems = [problem for each in compiled for problem in each.compilation.every_problem if not problem.survived]
    statuses = {each.compilation.status for each in compiled}
    if CompileStatus.FAILED in statuses:
        return ExitStatus.FAILED
    if statuses == {CompileStatus.COMPILED}:
        return ExitStatus.PASSED
    only_none = all(problem.kind is ProblemKind.NO_KERNELS for problem in problems)
    return ExitStatus.BAD_REQUEST if only_none else ExitStatus.MACHINE_CANNOT

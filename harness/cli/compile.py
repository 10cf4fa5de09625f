"""`harness compile FILE`: what every kernel of a file costs on a GPU that is not here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.boards.board import Board, Language
from harness.boards.directives import Directives, parse_directives, read_submission
from harness.boards.find import find_board
from harness.cli.common import json_option, print_json, stdout_console
from harness.compiling.architectures import ARCHITECTURES, Architecture, architecture_of_gpu, find_architecture
from harness.compiling.record import CompileStatus, ProblemKind
from harness.compiling.request import CASE_TIMEOUT_S, CompileRequest
from harness.errors import ExitStatus, MachineError, RequestError
from harness.evaluation.record import CaseKind, IsolationLevel

if TYPE_CHECKING:
    from harness.compiling.compile import Compiled

DEFAULT_ARCHITECTURE = "sm_100a"
_CUDA_ENDINGS = (".cu", ".cuh", ".cpp")


@click.command("compile")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--board", "--leaderboard", "board_name", metavar="BOARD", help="Whose cases to follow; else the header's."
)
@click.option("--case", "cases", type=int, multiple=True, metavar="I", help="Only this case; may be repeated.")
@click.option("--tests", is_flag=True, help="Follow the cases of the tests grid instead of the benchmarks.")
@click.option(
    "--arch",
    metavar="ARCH[,ARCH]",
    help=f"Among {', '.join(ARCHITECTURES)}. Default: those of the header's GPUs, else {DEFAULT_ARCHITECTURE}.",
)
@click.option(
    "--ptx", "ptx_folder", type=click.Path(path_type=Path), metavar="DIR", help="Write every kernel's PTX there."
)
@click.option("--sass", "sass_folder", type=click.Path(path_type=Path), metavar="DIR", help="And its disassembly.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=1), default=CASE_TIMEOUT_S, metavar="S", show_default=True,
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
    file: Path,
    board_name: str | None,
    cases: tuple[int, ...],
    tests: bool,
    arch: str | None,
    ptx_folder: Path | None,
    sass_folder: Path | None,
    timeout_s: float,
    no_cache: bool,
    isolation: str | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Compile every kernel that FILE launches, for a GPU that need not be here, and show what it costs there.

    \b
    harness compile kernel.py --arch sm_100a
    harness compile kernel.py --arch sm_90a,sm_100a --case 0 --sass out
    harness compile kernel.cu --arch sm_120a --json

    Nothing runs on a device: launches go as far as the compiler. Exit status: 0 everything compiles and fits; 1 a
    kernel does not; 2 the request was wrong, or no kernel was found; 3 something can't be followed here.
    """
    from harness.compiling.compile import compile_file
    from harness.store.location import home

    source = read_submission(file)
    directives = parse_directives(source, file.name)
    for warning in directives.warnings:
        click.echo(f"warning: {warning}", err=True)
    board = _board(file, board_name, directives)
    request = CompileRequest(
        source=source,
        file_name=file.name,
        board=board,
        architectures=_architectures(arch, directives, board),
        only=tuple(dict.fromkeys(cases)),
        kind=CaseKind.TEST if tests else CaseKind.BENCHMARK,
        isolation=IsolationLevel(isolation) if isolation else None,
        case_timeout_s=timeout_s,
        use_cache=not no_cache,
        beside=file.absolute().parent if board is None else None,
    )
    if board is None and cases:
        raise RequestError(
            "a CUDA file without a board has no cases", where="--case", hint="Name the board with --board."
        )
    compiled = compile_file(
        request, cache_folder=home() / "compiled", progress=lambda text: click.echo(f"  {text}", err=True)
    )
    for folder, kind in ((ptx_folder, "ptx"), (sass_folder, "sass")):
        if folder is not None:
            _write_files(folder, kind, compiled)
    if as_json:
        from harness.compiling.jsonable import to_dict

        documents = [{**to_dict(each.compilation), "status": each.compilation.status.value} for each in compiled]
        print_json({"compilations": documents})
    else:
        from harness.cli.compile_report import render_compilation

        console = stdout_console()
        for each in compiled:
            render_compilation(console, each.compilation, verbose=verbose)
    return _exit_status(compiled)


def _board(file: Path, option: str | None, directives: Directives) -> Board | None:
    """The board whose cases are followed; None for a CUDA file that names none."""
    if option is None and directives.leaderboard is None:
        if file.suffix in _CUDA_ENDINGS:
            return None
        raise RequestError(
            "no leaderboard is named, so there are no inputs to follow the code with",
            where=str(file),
            hint="Begin the file with `#!POPCORN leaderboard NAME`, or add --board NAME; `harness boards` lists them.",
        )
    board = find_board(option if option is not None else str(directives.leaderboard))
    if board.language is Language.PYTHON and file.suffix in _CUDA_ENDINGS:
        return None
    read_submission(file, board.language)
    if board.multi_gpu:
        raise MachineError(
            f"board '{board.name}' runs on several GPUs at once; compile mode has one make-believe device"
        )
    return board


def _architectures(option: str | None, directives: Directives, board: Board | None) -> tuple[Architecture, ...]:
    if option is not None:
        names = [name for name in option.split(",") if name.strip()]
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
                click.echo(f"wrote {path}", err=True)
    except OSError as error:
        raise RequestError(f"can't be written: {error.strerror}", where=str(error.filename or folder)) from error


def _exit_status(compiled: Sequence[Compiled]) -> int:
    problems = [problem for each in compiled for problem in each.compilation.every_problem if not problem.survived]
    statuses = {each.compilation.status for each in compiled}
    if CompileStatus.FAILED in statuses:
        return ExitStatus.FAILED
    if statuses == {CompileStatus.COMPILED}:
        return ExitStatus.PASSED
    only_none = all(problem.kind is ProblemKind.NO_KERNELS for problem in problems)
    return ExitStatus.BAD_REQUEST if only_none else ExitStatus.MACHINE_CANNOT

"""Compiles a `lang: cu` board with a submission by nvcc, with the hosted service's own flags.

The service drops the board's `compile_flags` and `libraries` on their way to its compiler. Here they count: a board
that names them means them.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.boards.board import Board
from harness.errors import MachineError, RequestError
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.popcorn.program import LAUNCH_FAILED, Limits
from harness.popcorn.verdicts import MOST_TRACEBACK, Verdict
from harness.popcorn.workplace import Workplace

COMPILE_TIMEOUT_S = 120
EXECUTABLE = "eval.out"
DEFAULT_ARCHITECTURE = "80"
"""Without a device and without a GPU that the board names: the code then only has to compile."""
FLAGS = (
    "--std=c++20",
    "-DNDEBUG",
    "-Xcompiler=-Wno-psabi",
    "-Xcompiler=-fno-strict-aliasing",
    "--expt-extended-lambda",
    "--expt-relaxed-constexpr",
    "-forward-unknown-to-host-compiler",
    "-O3",
    "-Xnvlink=--verbose",
    "-Xptxas=--verbose",
    "-Xptxas=--warn-on-spills",
)
"""The hosted service's, in its order."""
ARCHITECTURES: Mapping[str, str] = {
    "T4": "75",
    "A100": "80",
    "A10": "86",
    "L4": "89",
    "L40S": "89",
    "H100": "90a",
    "H200": "90a",
    "B200": "100",
    "B300": "103",
}
"""By a board's name of the GPU. The service compiles for 90a on Hopper and for plain 100 on Blackwell."""


@dataclass(frozen=True)
class Compiled:
    """What came of it: the folder with `eval.out`, or a verdict with nvcc's words as its traceback."""

    folder: Path
    failure: Verdict | None
    architecture: str


def compile_board(board: Board, workplace: Workplace, capability: str | None) -> Compiled:
    """Compile in a fresh folder of the workplace. `capability` is the device's, e.g. `9.0`; None without a device.

    Raises MachineError without nvcc, RequestError for an include folder that is not there.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise MachineError(
            f"board '{board.name}' is a CUDA board and nvcc is not on PATH",
            hint="Install the CUDA toolkit and put its bin folder on PATH.",
        )
    architecture = architecture_of(capability) if capability else _named_architecture(board.gpus)
    folder = workplace.folder("compile")
    command = [nvcc, *compile_arguments(board, folder, architecture)]
    with workplace.program(folder, command) as program:
        for _ in program.lines(Limits(COMPILE_TIMEOUT_S)):
            pass
    words = f"$ {shlex.join(['nvcc', *command[1:]])}\n{program.stderr}\n{program.stdout}"[-MOST_TRACEBACK:].strip()
    if program.exit_status == 0:
        return Compiled(folder, None, architecture)
    if program.exit_status == LAUNCH_FAILED:
        raise MachineError(f"nvcc could not be started in the sandbox: {str(program.stderr).strip()}")
    why = first_error(f"{program.stderr}\n{program.stdout}") or f"nvcc ended with exit status {program.exit_status}"
    if program.timed_out:
        why = f"nvcc did not end within {COMPILE_TIMEOUT_S} s"
    return Compiled(folder, (Status.FAILED, Reason(ReasonCode.COMPILE_FAILED, why), words), architecture)


def compile_arguments(board: Board, folder: Path, architecture: str) -> list[str]:
    """nvcc's arguments after its name, for the board's files laid out in `folder`. Raises RequestError."""
    config = board.cuda
    assert config is not None
    where = str(board.folder / "task.yml")
    for include in config.include_dirs:
        if not (folder / include).is_dir():
            raise RequestError(
                f"the include folder '{include}' is not there",
                where=f"{where}: config.include_dirs",
                allowed="a folder among the board's files, or an absolute path of this machine",
            )
    for name in config.defines:
        if not name.isidentifier():
            raise RequestError(f"'{name}' can't be a macro's name", where=f"{where}: config.defines")
    for flag in config.compile_flags:
        if not flag.startswith("-"):
            raise RequestError(f"the flag '{flag}' has no dash", where=f"{where}: config.compile_flags")
    return [
        *FLAGS,
        *(f"-I{include}" for include in config.include_dirs),
        *(f"-l{library}" for library in board.libraries),
        *(f"-D{name}={value}" if value else f"-D{name}" for name, value in config.defines.items()),
        *config.compile_flags,
        *config.sources,
        f"-gencode=arch=compute_{architecture},code=sm_{architecture}",
        "-o",
        EXECUTABLE,
    ]


def architecture_of(capability: str) -> str:
    """nvcc's name for a compute capability, `90a` for `9.0`."""
    plain = capability.replace(".", "")
    return "90a" if plain == "90" else plain


def first_error(output: str) -> str:
    """nvcc's first error, e.g. `submission.cu(3): error: expected a ";"`; empty where there is none."""
    errors = (line.strip() for line in output.splitlines() if "error" in line or "undefined reference" in line)
    return next(errors, "")[:500]


def _named_architecture(gpus: tuple[str, ...]) -> str:
    known = {name.casefold(): architecture for name, architecture in ARCHITECTURES.items()}
    return next((known[gpu.casefold()] for gpu in gpus if gpu.casefold() in known), DEFAULT_ARCHITECTURE)

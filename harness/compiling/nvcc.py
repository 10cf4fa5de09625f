"""CUDA C++ to cubin and PTX for one architecture, by nvcc. Device code alone: nothing is linked, no host code made."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compiling.tools import find_tool

TIMEOUT_S = 600.0
_ARCH_OPTION = re.compile(r"(?:-gencode|--generate-code|-arch|--gpu-architecture|-code|--gpu-code)(=.*)?$")
_ERROR = re.compile(
    r"^(?P<file>[^\s(:][^(:]*)(?:\((?P<line>\d+)\)|:(?P<line2>\d+)(?::\d+)?): (?:fatal )?error\s*:? (?P<text>.*)$"
)
_PTXAS_ERROR = re.compile(r"^ptxas (?:\S.*?, line \d+; )?(?:error|fatal)\s*: (?P<text>.*)$")
_ABORTED = "aborted due to errors"
_MISSING_HEADER = re.compile(r"fatal error: (?P<name>\S+): No such file|cannot open source file \"(?P<name2>[^\"]+)\"")


@dataclass(frozen=True)
class CudaCode:
    """What nvcc made of one source: the cubin, its PTX and the assembler's words on each kernel."""

    cubin: bytes
    ptx: str
    log: str
    seconds: float


@dataclass(frozen=True)
class CudaError:
    """One error of the compiler: its text, and the file and line where it has one."""

    text: str
    file: str = ""
    line: int = 0


class CudaCompileError(Exception):
    """The source does not compile. `errors` are the compiler's, `log` its whole output, `missing` a header that is
    not here."""

    def __init__(self, errors: tuple[CudaError, ...], log: str) -> None:
        first = errors[0].text if errors else "nvcc failed"
        super().__init__(first)
        self.errors, self.log = errors, log
        found = _MISSING_HEADER.search(log)
        self.missing = (found.group("name") or found.group("name2")) if found else ""


def compile_cuda(
    source: Path,
    architecture: str,
    *,
    options: Sequence[str] = (),
    include_dirs: Sequence[Path] = (),
    timeout_s: float = TIMEOUT_S,
) -> CudaCode:
    """Compile a `.cu` file for `architecture`, e.g. `sm_100a`. Options that choose an architecture are dropped.

    Raises CudaCompileError; ToolMissingError where there is no nvcc.
    """
    nvcc = find_tool("nvcc")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="nvcc-") as folder:
        output = Path(folder) / "out.cubin"
        compute = architecture.replace("sm_", "compute_")
        command = [str(nvcc), "-cubin", "-gencode", f"arch={compute},code={architecture}", "-lineinfo"]
        command += ["-Xptxas", "-v", "--keep", "--keep-dir", folder, *(f"-I{path}" for path in include_dirs)]
        command += [*without_architecture(options), str(source), "-o", str(output)]
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=timeout_s, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise CudaCompileError((CudaError(f"nvcc took longer than {timeout_s:.0f} s"),), "") from None
        log = run.stderr + run.stdout
        if run.returncode or not output.is_file():
            raise CudaCompileError(errors_of(log), log)
        texts = sorted(Path(folder).glob("*.ptx"))
        ptx = texts[0].read_text(errors="replace") if texts else ""
        return CudaCode(output.read_bytes(), ptx, log, time.perf_counter() - started)


def without_architecture(options: Sequence[str]) -> list[str]:
    """The options without those that choose an architecture, and without debugging ones that change the code."""
    kept: list[str] = []
    skip = False
    for option in options:
        if skip:
            skip = False
            continue
        found = _ARCH_OPTION.match(option)
        if found:
            skip = found.group(1) is None
            continue
        if option in ("-c", "-dc", "-rdc=true", "--relocatable-device-code=true", "-Xptxas=-v", "--ptxas-options=-v"):
            continue
        kept.append(option)
    return kept


def errors_of(log: str) -> tuple[CudaError, ...]:
    """The errors in nvcc's output, in its order."""
    found: list[CudaError] = []
    for line in log.splitlines():
        match = _ERROR.match(line.strip())
        if match:
            number = int(match.group("line") or match.group("line2"))
            found.append(CudaError(match.group("text").strip(), match.group("file"), number))
            continue
        match = _PTXAS_ERROR.match(line.strip())
        if match:
            found.append(CudaError(f"ptxas: {match.group('text').strip()}"))
    telling = [each for each in dict.fromkeys(found) if _ABORTED not in each.text]
    found = telling or found
    if not found:
        last = [line for line in log.splitlines() if line.strip()][-1:]
        found = [CudaError(last[0] if last else "nvcc failed without a word")]
    return tuple(found)

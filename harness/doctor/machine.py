"""The machine without its GPU: Python, cores, memory, disk, programs, isolation. Nothing here imports torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.advice import install, install_extra
from harness.doctor.findings import Finding, note, ok, problem
from harness.errors import disk_fault
from harness.evaluation import state
from harness.evaluation.record import IsolationLevel

OLDEST_PYTHON, FIRST_PYTHON_TOO_NEW = (3, 11), (3, 14)
LITTLE_MEMORY_BYTES = 4 << 30
LITTLE_DISK_BYTES = 2 << 30

# program -> (area, what it is for, how to get it)
PROGRAMS = {
    "nvcc": ("nvcc", "CUDA boards and inline CUDA", "Install the CUDA toolkit and put its bin folder on PATH."),
    "ptxas": ("ptxas", "what registers and spills a kernel has", "It comes with the CUDA toolkit."),
    "ncu": ("Nsight Compute", "profiles by hardware counters", "Install Nsight Compute and put ncu on PATH."),
    "g++": ("C++ compiler", "inline C++ and CUDA, and Triton's launcher", "apt install g++"),
    "ninja": ("ninja", "torch's inline extensions", install("ninja")),
}
# distribution -> (area, how to get it)
PACKAGES = {
    "triton": ("Triton", install_extra("triton")),
    "helion": ("Helion", install_extra("dsl")),
    "nvidia-cutlass-dsl": ("CuTe DSL", install_extra("dsl")),
}


def python() -> Iterator[Finding]:
    """The interpreter that runs this."""
    version = platform.python_version()
    if OLDEST_PYTHON <= sys.version_info[:2] < FIRST_PYTHON_TOO_NEW:
        yield ok("Python", f"{version} ({sys.executable})", version=version, executable=sys.executable)
    else:
        advice = "Use Python 3.11, 3.12 or 3.13."
        yield problem("Python", f"{version} is not among the supported versions", advice, version=version)
    if sys.platform != "linux":
        advice = "Run it on Linux for isolation and memory limits; WSL 2 counts."
        yield note("system", f"{platform.platform()}: submissions can't be isolated here", advice)
    else:
        yield ok("system", platform.platform(), platform=platform.platform())


def resources() -> Iterator[Finding]:
    """Cores and memory."""
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = psutil.virtual_memory()
    yield ok("cores", f"{cores} to be used, {os.cpu_count()} in the machine", usable=cores)
    reading = state.read("cpu")
    if state.busy(reading):
        text = f"{reading['load_1min']:.1f} processes wanted to run in the last minute, on {cores} cores"
        yield note("load", text, "Figures are disturbed, those of GPUs too: end other programs first.", **reading)
    text = f"{gigabytes(memory.available)} free of {gigabytes(memory.total)}"
    details = {"available_bytes": memory.available, "total_bytes": memory.total}
    if memory.available < LITTLE_MEMORY_BYTES:
        yield note("memory", text, "Close other programs: torch alone takes about 1 GiB a process.", **details)
    else:
        yield ok("memory", text, **details)


def disk(area: str, folder: Path) -> Iterator[Finding]:
    """The space where a folder lies, or will lie."""
    existing = next((path for path in [folder, *folder.parents] if os.path.exists(path)), Path("/"))
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        yield problem(area, f"{folder}: {error.strerror}", "Set HARNESS_HOME or TMPDIR to another folder.")
        return
    if free < LITTLE_DISK_BYTES:
        yield note(area, f"{gigabytes(free)} free at {existing}", "Free some space.", free_bytes=free)
    else:
        yield ok(area, f"{gigabytes(free)} free at {existing}", free_bytes=free)


def scratch_folder() -> Path:
    """Where scratch folders lie. Raises MachineError where there is no place for them."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise disk_fault(error) or error from error


def programs() -> Iterator[Finding]:
    """Compilers and profilers on PATH."""
    for program, (area, purpose, advice) in PROGRAMS.items():
        path = shutil.which(program)
        if path is None:
            yield note(area, f"{program} is not on PATH: without it there are no {purpose}", advice)
            continue
        version = program_version(path)
        yield ok(area, f"{version or 'version unknown'} ({path})", path=path, version=version)


def program_version(path: str) -> str:
    """The first version number that `--version` prints, e.g. `13.0`; empty where there is none."""
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    text = run.stdout + run.stderr
    found = re.search(r"release (\d+(?:\.\d+)+)", text) or re.search(r"\b(\d+(?:\.\d+)+)", text)
    return found[1] if found else ""


def packages() -> Iterator[Finding]:
    """The kernel languages that are installed; none of them is imported."""
    for name, (area, advice) in PACKAGES.items():
        version = installed_version(name)
        if version is None:
            yield note(area, f"{name} is not installed", advice)
        else:
            yield ok(area, version, version=version)


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def isolation() -> Iterator[Finding]:
    """What can separate a submission from this machine; each level is really tried."""
    from harness.sandbox import probe
    from harness.sandbox.probe import PREFERENCE

    ability = probe()
    levels = [level.value for level in ability.levels]
    if ability.best is IsolationLevel.NONE:
        yield note(
            "isolation",
            "none: a submission runs as you, and its results rank nowhere",
            "apt install bubblewrap, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0), or run as root.",
            levels=levels,
        )
    else:
        others = f"; also: {', '.join(levels[1:-1])}" if len(levels) > 2 else ""
        yield ok("isolation", f"{ability.best}{others}", best=ability.best.value, levels=levels)
    for level in PREFERENCE[: PREFERENCE.index(ability.best)]:  # what would be stronger
        yield note("isolation", f"no {level}: {ability.reasons[level]}", _isolation_advice(level))
    for weaker in ability.notes[ability.best]:
        yield note("isolation", f"{ability.best}: {weaker}")
    if ability.cgroup:
        advice = "Memory is watched instead, which is slower to see an excess. Delegate a control group to change it."
        yield note("control group", ability.cgroup, advice)
    else:
        yield ok("control group", "memory and processes can be bounded by the kernel")


def _isolation_advice(level: IsolationLevel) -> str:
    if level is IsolationLevel.BUBBLEWRAP and shutil.which("bwrap") is None:
        return "apt install bubblewrap"
    return ""


def gigabytes(count: float) -> str:
    """Bytes as a person reads them, e.g. `23.4 GiB`."""
    return f"{count / 2**30:.1f} GiB"

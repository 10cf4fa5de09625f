"""From a compiled kernel to its report: resources, limits, occupancy, instruction mix."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.compiling.architectures import Architecture
from harness.compiling.cubin import CubinKernel, kernels_of
from harness.compiling.instructions import instruction_mix, opcodes
from harness.compiling.occupancy import Occupancy, occupancy
from harness.compiling.record import Kernel, Problem, ProblemKind, Resources
from harness.compiling.tools import ToolMissingError, find_ptxas, find_tool

if TYPE_CHECKING:
    from harness.compiling.worker.collect import FoundKernel

_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_FUNCTION = re.compile(r"Compiling entry function '([^']+)'")
_SECTION = re.compile(r"^\.text\.(\S+?):\s*$", re.MULTILINE)
_ALLOC = re.compile(r"tcgen05\.alloc\S*\s+\[[^\]]*\],\s*(%\w+|\d+)\s*;")
_TIMEOUT_S = 300.0
_WORD_BYTES = 4


@dataclass(frozen=True)
class Assembled:
    """What the assembler says of one kernel."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int


def analyse(found: FoundKernel, architecture: Architecture, folder: Path, stem: str) -> Kernel:
    """The report of a kernel; its artefacts are written to `folder` as `stem`.ptx, .sass and .cubin."""
    cubin = next((each for each in kernels_of(found.cubin) if each.name == found.entry), None)
    if cubin is None:
        raise ValueError(f"the cubin holds no kernel {found.entry}")
    notes = list(found.notes)
    sass = ""
    try:
        sass = disassemble(found.cubin).get(found.entry, "")
    except (ToolMissingError, subprocess.SubprocessError, OSError) as error:
        notes.append(f"no disassembly: {error}")
    resources = _resources(found, cubin, architecture, sass, notes)
    occupied = _occupancy(resources, architecture)
    problems = tuple(
        Problem(ProblemKind.OVER_LIMIT, text, found.source, found.name, survived=found.autotuned)
        for text in over_limits(resources, occupied, architecture)
    )
    files = {}
    for kind, content in (("ptx", found.ptx.encode()), ("sass", sass.encode()), ("cubin", found.cubin)):
        if content:
            files[kind] = f"{stem}.{kind}"
            (folder / files[kind]).write_bytes(content)
    return Kernel(
        name=found.name,
        dsl=found.dsl,
        specialisation=found.specialisation,
        source=found.source,
        resources=resources,
        occupancy=occupied,
        instructions={kind.value: count for kind, count in instruction_mix(sass).items()},
        code_bytes=cubin.code_bytes,
        compile_s=round(found.compile_s, 4),
        sha256=cubin.code_sha256,
        cases=tuple(sorted(found.cases)),
        launches=found.launches,
        autotuned=found.autotuned,
        problems=problems,
        notes=tuple(notes),
        files=files,
    )


def _resources(
    found: FoundKernel, cubin: CubinKernel, architecture: Architecture, sass: str, notes: list[str]
) -> Resources:
    static = cubin.section_shared_bytes
    if architecture.capability >= (9, 0):  # there the section holds the driver's share too
        static = max(0, static - architecture.shared_reserved_per_block)
    dynamic = found.dynamic_shared_bytes
    if found.shared_is_total:
        dynamic, static = max(0, dynamic - static), static
    spills, exact = _spills(found, cubin, architecture, sass, notes)
    columns = found.tensor_memory_columns
    if columns is None:
        columns = tensor_columns(found.ptx, found.entry) if architecture.tensor_memory_columns else 0
        if columns is None:
            notes.append("tensor memory is allocated by an amount known at run time; not counted")
    cluster = found.cluster or (1, 1, 1)
    return Resources(
        registers=cubin.registers,
        spill_store_bytes=spills.spill_store_bytes,
        spill_load_bytes=spills.spill_load_bytes,
        stack_bytes=cubin.stack_bytes,
        static_shared_bytes=static,
        dynamic_shared_bytes=dynamic,
        tensor_memory_columns=columns or 0,
        threads=cubin.threads or found.threads,
        most_threads=cubin.most_threads or None,
        cluster=cubin.cluster if cubin.cluster != (1, 1, 1) else cluster,
        spill_exact=exact,
    )


def _spills(
    found: FoundKernel, cubin: CubinKernel, architecture: Architecture, sass: str, notes: list[str]
) -> tuple[Assembled, bool]:
    """Bytes of spills. Code without local memory has none; otherwise the assembler's own words, or an estimate."""
    counted = opcodes(sass)
    if sass and not (counted["LDL"] or counted["STL"]):
        return Assembled(cubin.registers, 0, 0), True
    told = assembler_words(found.log).get(found.entry)
    if told is None and found.ptx:
        told = assembled_again(found.ptx, architecture, found.assembler_options).get(found.entry)
    if told is not None and told.registers == cubin.registers:
        return told, True
    notes.append("spills are estimated from the local loads and stores in the code")
    return Assembled(cubin.registers, counted["STL"] * _WORD_BYTES, counted["LDL"] * _WORD_BYTES), False


def _occupancy(resources: Resources, architecture: Architecture) -> Occupancy | None:
    threads = resources.threads or resources.most_threads
    if not threads:
        return None
    return occupancy(
        architecture,
        threads=threads,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes,
        tensor_columns=resources.tensor_memory_columns,
    )


def over_limits(resources: Resources, occupied: Occupancy | None, architecture: Architecture) -> tuple[str, ...]:
    """What a kernel asks for beyond what the architecture has, one sentence each."""
    found = []
    name = architecture.name
    if resources.shared_bytes > architecture.shared_per_block:
        found.append(
            f"{resources.shared_bytes:,} bytes of shared memory; {name} has {architecture.shared_per_block:,} a block"
        )
    threads = resources.threads or 0
    if threads > architecture.threads_per_block:
        found.append(f"{threads:,} threads; {name} takes {architecture.threads_per_block:,} a block")
    if resources.tensor_memory_columns > architecture.tensor_memory_columns:
        found.append(
            f"{resources.tensor_memory_columns} columns of tensor memory; {name} has "
            f"{architecture.tensor_memory_columns or 'none'}"
        )
    x, y, z = resources.cluster
    if x * y * z > architecture.cluster_blocks:
        found.append(f"a cluster of {x * y * z} blocks; {name} takes {architecture.cluster_blocks}")
    if occupied is not None and occupied.blocks == 0 and not found:
        found.append(
            f"{resources.registers} registers for each of {threads:,} threads; {name} has "
            f"{architecture.registers_per_multiprocessor:,} registers"
        )
    return tuple(found)


@functools.lru_cache(maxsize=64)
def disassemble(cubin: bytes) -> Mapping[str, str]:
    """The disassembly of every function of a cubin, by name."""
    program = find_tool("nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        run = subprocess.run([program, "-c", file.name], capture_output=True, text=True, timeout=_TIMEOUT_S)
    if run.returncode:
        words = run.stderr.strip().splitlines()[-1:] or ["nvdisasm failed"]
        raise subprocess.SubprocessError(words[0])
    heads = list(_SECTION.finditer(run.stdout))
    ends = [head.start() for head in heads[1:]] + [len(run.stdout)]
    return {head.group(1): run.stdout[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def assembler_words(log: str) -> dict[str, Assembled]:
    """What `ptxas -v` said of each kernel."""
    found: dict[str, Assembled] = {}
    name, spills = "", (0, 0)
    for line in log.splitlines():
        if match := _FUNCTION.search(line):
            name, spills = match.group(1), (0, 0)
        elif match := _SPILLS.search(line):
            spills = (int(match.group(1)), int(match.group(2)))
        elif (match := _USED.search(line)) and name:
            found[name] = Assembled(int(match.group(1)), *spills)
            name = ""
    return found


@functools.lru_cache(maxsize=64)
def assembled_again(ptx: str, architecture: Architecture, options: tuple[str, ...]) -> Mapping[str, Assembled]:
    """What the assembler says when it assembles the PTX once more; empty where it can't."""
    try:
        program = find_ptxas(architecture.number)
        with tempfile.TemporaryDirectory(prefix="ptxas-") as folder:
            source = Path(folder) / "kernel.ptx"
            source.write_text(ptx)
            output = Path(folder) / "out"
            command = [str(program), "-v", *options, f"--gpu-name={architecture.name}", str(source), "-o", str(output)]
            run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (ToolMissingError, subprocess.SubprocessError, OSError):
        return {}
    return assembler_words(run.stderr) if run.returncode == 0 else {}


def tensor_columns(ptx: str, entry: str) -> int | None:
    """Columns of tensor memory that a kernel's PTX allocates at one place at most; None where a register that is no
    constant says how many."""
    body = entry_body(ptx, entry)
    most = 0
    for match in _ALLOC.finditer(body):
        text = match.group(1)
        if text.startswith("%"):
            constant = re.search(rf"mov\.[bus]32\s+{re.escape(text)},\s*(\d+)\s*;", body)
            if constant is None:
                return None
            text = constant.group(1)
        most = max(most, int(text))
    return most


def entry_body(ptx: str, entry: str) -> str:
    """The text of one kernel in a PTX module."""
    start = re.search(rf"\.entry\s+{re.escape(entry)}\b", ptx)
    if start is None:
        return ""
    end = re.search(r"\n\.(?:visible|weak|extern)?\s*\.?(?:entry|func)\b", ptx[start.end() :])
    return ptx[start.start() : start.end() + end.start()] if end else ptx[start.start() :]

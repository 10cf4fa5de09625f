"""The screen of a compilation, for `compile` and `show` alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.formatting import ending, format_indices, printable
from harness.cli.writing import plain_table, print_table, write
from harness.compiling.architectures import ARCHITECTURES
from harness.compiling.record import Compilation, CompileStatus, Kernel, Problem, ProblemKind
from harness.wording import counted, noun_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DETAILS_SHOWN = 8
"""Kernels up to which each one's specialisation and instruction mix are shown unasked."""
DETAIL_LINES = 14
_STATUS_STYLE = {
    CompileStatus.COMPILED: "bold green",
    CompileStatus.FAILED: "bold red",
    CompileStatus.NOT_FOLLOWED: "bold yellow",
}
_STATUS_WORDS = {
    CompileStatus.COMPILED: "COMPILED",
    CompileStatus.FAILED: "FAILED",
    CompileStatus.NOT_FOLLOWED: "NOT FOLLOWED",
}
_KIND_WORDS = {
    ProblemKind.COMPILE_ERROR: "does not compile",
    ProblemKind.OVER_LIMIT: "over a limit",
    ProblemKind.EXCEPTION: "the code raised",
    ProblemKind.NOT_FOLLOWED: "can't be followed",
    ProblemKind.GUESS: "followed by a guess",
    ProblemKind.NO_KERNELS: "nothing to report",
    ProblemKind.CRASH: "the worker ended",
    ProblemKind.TIMEOUT: "time ran out",
    ProblemKind.MISSING: "missing here",
}


def render_compilation(console: Console, compilation: Compilation, *, verbose: bool = False) -> None:
    """Write one architecture's result: verdict, kernels, problems, library calls."""
    architecture = ARCHITECTURES.get(compilation.architecture)
    product = f" ({architecture.device.product})" if architecture else ""
    count = len(compilation.kernels)
    cached = ", known from before" if compilation.cached else f", {compilation.seconds:.1f} s"
    kernels = f"{counted(count, 'kernel')}{cached}"
    line = f"{compilation.architecture}{product}: {_STATUS_WORDS[compilation.status]}   {kernels}"
    write(console, line, style=_STATUS_STYLE[compilation.status])
    if compilation.kernels:
        print_table(console, _table(compilation))
        if verbose or count <= DETAILS_SHOWN:
            for number, kernel in enumerate(compilation.kernels):
                _write_details(console, number, kernel)
        else:
            write(console, "-v shows every kernel's specialisation and instructions", style="dim")
    _write_problems(console, compilation)
    _write_library_calls(console, compilation)
    console.print()


def compilation_document(compilation: Compilation) -> dict[str, object]:
    """A compilation as `--json` has it."""
    from harness.compiling.jsonable import to_dict

    return {**to_dict(compilation), "status": compilation.status.value}


def _table(compilation: Compilation) -> Table:
    from rich.text import Text

    table = plain_table()
    columns = ("#", "kernel", "regs", "spill B", "shared B", "tmem", "threads", "occupancy", "limited by")
    tensor_memory = any(kernel.resources.tensor_memory_columns for kernel in compilation.kernels)
    shown = [column for column in columns if column != "tmem" or tensor_memory]
    for column in shown:
        left = column in ("kernel", "limited by")
        table.add_column(
            column, justify="left" if left else "right", no_wrap=column != "kernel" and column != "limited by"
        )
    for number, kernel in enumerate(compilation.kernels):
        r = kernel.resources
        cells: dict[str, Text | str] = {
            "#": str(number),
            "kernel": Text(printable(kernel.name) + (" *" if kernel.autotuned else "")),
            "regs": str(r.registers),
            "spill B": Text(f"{'' if r.spill_exact else '~'}{r.spill_bytes:,}", style="red" if r.spill_bytes else ""),
            "shared B": Text(f"{r.shared_bytes:,}", style="red" if _over(kernel, "shared") else ""),
            "tmem": str(r.tensor_memory_columns),
            "threads": _threads(kernel),
            "occupancy": _occupancy(kernel),
            "limited by": Text(
                ", ".join(kernel.occupancy.limiters) if kernel.occupancy else "the block's size is not known"
            ),
        }
        table.add_row(*[cells[column] for column in shown])
    return table


def _over(kernel: Kernel, word: str) -> bool:
    return any(word in problem.message for problem in kernel.problems)


def _threads(kernel: Kernel) -> str:
    r = kernel.resources
    if r.threads:
        x, y, z = r.cluster
        return f"{r.threads}" + (f" ×{x * y * z}" if x * y * z > 1 else "")
    return f"≤ {r.most_threads}" if r.most_threads else "?"


def _occupancy(kernel: Kernel) -> str:
    if kernel.occupancy is None:
        return "?"
    return f"{100 * kernel.occupancy.fraction:.0f} % ({kernel.occupancy.blocks})"


def _write_details(console: Console, number: int, kernel: Kernel) -> None:
    source = f" · {kernel.source}" if kernel.source else ""
    cases = f" · {noun_for(len(kernel.cases), 'case')} {format_indices(kernel.cases)}" if kernel.cases else ""
    if kernel.cases and not kernel.autotuned:
        cases += f" · {counted(kernel.launches, 'launch', 'launches')}" if kernel.launches else " · not launched"
    head = f"{number} {kernel.dsl.value}{source}{cases} · {kernel.code_bytes:,} B of code · {kernel.compile_s:.2f} s"
    write(console, printable(head), style="dim")
    if kernel.specialisation:
        write(console, printable(kernel.specialisation), style="dim", indent=2)
    if kernel.instructions:
        mix = ", ".join(f"{name} {count}" for name, count in kernel.instructions.items())
        write(console, mix, style="dim", indent=2)
    for note in kernel.notes:
        write(console, printable(note), style="dim", indent=2)


def _write_problems(console: Console, compilation: Compilation) -> None:
    """Each distinct problem once, with the cases that met it."""
    met: dict[tuple[object, ...], tuple[Problem, list[int]]] = {}
    for index, problems in [(-1, compilation.problems), *((case.index, case.problems) for case in compilation.cases)]:
        for problem in problems:
            key: tuple[object, ...] = (problem.kind, problem.message, problem.source, problem.survived)
            met.setdefault(key, (problem, []))[1].append(index)
    for kernel in compilation.kernels:
        for problem in kernel.problems:
            key = (problem.kind, problem.message, problem.source, problem.survived, kernel.name)
            met.setdefault(key, (problem, []))
    for problem, indices in met.values():
        where = f"{problem.source}: " if problem.source else ""
        kernel_name = f"{problem.kernel}: " if problem.kernel else ""
        cases = [index for index in indices if index >= 0]
        which = f" (case {format_indices(cases)})" if cases else ""
        aside = ", and the code goes on without it" if problem.survived else ""
        style = "dim" if problem.survived else "yellow" if _mild(problem) else "red"
        text = f"{where}{kernel_name}{_KIND_WORDS[problem.kind]}{aside}{which}: {problem.message}"
        write(console, printable(text), style=style)
        if problem.detail and not problem.survived and problem.kind is not ProblemKind.MISSING:
            write(console, ending(problem.detail, DETAIL_LINES), style="dim", indent=2)


def _mild(problem: Problem) -> bool:
    return problem.kind in (ProblemKind.NOT_FOLLOWED, ProblemKind.GUESS, ProblemKind.NO_KERNELS, ProblemKind.MISSING)


def _write_library_calls(console: Console, compilation: Compilation) -> None:
    calls: dict[str, int] = {}
    for case in compilation.cases:
        for name, count in case.library_calls.items():
            calls[name] = calls.get(name, 0) + count
    if calls:
        listed = ", ".join(f"{name} ×{count}" for name, count in sorted(calls.items(), key=lambda item: -item[1])[:12])
        more = f" and {len(calls) - 12} more" if len(calls) > 12 else ""
        write(console, f"library kernels, not compiled here: {listed}{more}", style="dim")
    if any(kernel.autotuned for kernel in compilation.kernels):
        write(console, "* a candidate of an autotuner; which one wins is not known without the device", style="dim")

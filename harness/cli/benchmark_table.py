"""The benchmarks of an evaluation as the result screen shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.formatting import TOO_FEW, format_case, format_indices, format_share, format_spread, format_time
from harness.evaluation.record import CaseResult, Status
from harness.measure.statistics import FEWEST_FOR_INTERVAL, Figure, case_figure

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def benchmark_table(cases: Sequence[CaseResult], table: Table) -> Table:
    """A row for each benchmark, in this empty table."""
    from rich.text import Text

    with_light = any(case.speed_of_light_ns is not None for case in cases)
    table.add_column("#", justify="right")
    table.add_column("benchmark")
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("95 %", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    if with_light:
        table.add_column("of light", justify="right", no_wrap=True)
    for case in cases:
        figure = case_figure(case.samples)
        passed = case.status is Status.PASSED
        cells: list[str | Text] = [
            str(case.index),
            Text(format_case(case.spec)),
            Text(format_time(figure) if passed else case.status.value, style="" if passed else "red"),
            _spread(figure, case) if passed else "",
            str(len(case.samples.wall_ns)) if case.samples else "",
        ]
        if with_light:
            cells.append(format_share(case.speed_of_light_ns, figure) if passed else "")
        table.add_row(*cells)
    return table


def _spread(figure: Figure | None, case: CaseResult) -> str:
    samples = len(case.samples.wall_ns) if case.samples else 0
    return TOO_FEW if figure is not None and samples < FEWEST_FOR_INTERVAL else format_spread(figure)


def processes_told(cases: Sequence[CaseResult]) -> str:
    """In how many worker processes the benchmarks were measured, where any was in more than one; else nothing."""
    counts = {case.index: case.samples.workers for case in cases if case.samples is not None}
    most = max(counts.values(), default=1)
    if most == 1:
        return ""
    others = [f"#{_which(counts, count)} in {count}" for count in sorted(set(counts.values()) - {most}, reverse=True)]
    return "; ".join([f"measured in {most} processes by turns", *others])


def _which(counts: dict[int, int], count: int) -> str:
    return format_indices([index for index, each in counts.items() if each == count])

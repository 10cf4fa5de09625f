"""Watching an evaluation: its progress on standard error, its parts to whoever keeps them, an end in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.boards.board import format_spec
from harness.cli.common import stderr_console
from harness.cli.formatting import format_time, printable
from harness.cli.streams import one_reader
from harness.errors import HarnessError, disk_fault
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    EvaluationHeader,
    EvaluationOutcome,
    Event,
    Notice,
    Progress,
    Reason,
    ReasonCode,
    Status,
)
from harness.measure.statistics import case_figure

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Run:
    """An evaluation as it was watched: its parts once `watch` has returned."""

    header: EvaluationHeader
    cases: list[CaseResult]
    outcome: EvaluationOutcome
    told: list[str]
    """The warnings among its progress that whoever reads the result has seen as well."""


def watch(
    evaluation: Any,
    on_header: Callable[[EvaluationHeader], None] = lambda header: None,
    on_case: Callable[[CaseResult], None] = lambda case: None,
    on_outcome: Callable[[EvaluationOutcome], None] = lambda outcome: None,
) -> Run:
    """Run an evaluation to its end, showing its progress on standard error and handing every part to the callbacks.

    When it is stopped from outside (the user's interrupt, a fault of the board or of ours), the outcome is recorded
    before the error passes on.
    """
    header: EvaluationHeader | None = None
    cases: list[CaseResult] = []
    outcome: EvaluationOutcome | None = None
    told: list[str] = []
    events: Iterator[Event] = evaluation.events()
    try:
        with _progress() as show:
            for event in events:
                match event:
                    case EvaluationHeader():
                        on_header(event)
                        header = event
                    case Notice():
                        told.append(event.text)
                    case CaseResult():
                        cases.append(event)
                        on_case(event)
                    case EvaluationOutcome():
                        outcome = event
                        on_outcome(event)
                show(event)
    except BaseException as error:
        if header is not None and outcome is None:
            on_outcome(_cut_short(error))
        raise
    finally:
        events.close()  # type: ignore[attr-defined]
    assert header is not None
    assert outcome is not None
    return Run(header, cases, outcome, told if one_reader() else [])


def _cut_short(error: BaseException) -> EvaluationOutcome:
    if isinstance(error, HarnessError):
        return EvaluationOutcome(Status.ERROR, Reason(ReasonCode.HARNESS, str(error)))
    if (fault := disk_fault(error)) is not None:
        return EvaluationOutcome(Status.ERROR, Reason(ReasonCode.HARNESS, str(fault)))
    if isinstance(error, KeyboardInterrupt):
        return EvaluationOutcome(Status.INTERRUPTED, Reason(ReasonCode.INTERRUPTED, "stopped by the user"))
    return EvaluationOutcome(
        Status.ERROR, Reason(ReasonCode.HARNESS, f"internal error: {type(error).__name__}: {error}")
    )


@contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    """A bar on a terminal, plain lines elsewhere; either way one line for every finished case."""
    console = stderr_console()
    if not console.is_terminal:
        yield lambda event: _line(console, event)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(event: Event) -> None:
            if isinstance(event, EvaluationHeader):
                bar.update(task, total=event.cases_planned)
            if isinstance(event, Progress):
                bar.update(task, description=event.text, completed=event.done)
            _line(console, event)

        yield show


def _line(console: Console, event: Event) -> None:
    if isinstance(event, EvaluationHeader):
        interpreted = ", by Triton's interpreter" if event.interpreted else ""
        where = f"{event.device.name}, {event.grid} grid, isolation {event.isolation}{interpreted}"
        console.print(printable(f"{event.mode} on {where}"), markup=False)
    if isinstance(event, Notice):
        console.print(printable(f"warning: {event.text}"), markup=False, soft_wrap=True)
    if isinstance(event, CaseResult):
        figure = case_figure(event.samples)
        took = f"  {format_time(figure)}" if figure is not None and event.status is Status.PASSED else ""
        why = f": {event.reason.message}" if event.reason is not None else ""
        text = f"  {event.kind} {event.index} ({format_spec(event.spec)}) {event.status}{took}{why}"
        console.print(printable(text), markup=False, soft_wrap=True)


def _case_text(result: CaseResult) -> str:
    """The case in a few words: a benchmark's seed is not the one that was used, and is left out."""
    shown = {k: v for k, v in result.spec.items() if k != "seed" or result.kind is CaseKind.TEST}
    return format_spec(shown)

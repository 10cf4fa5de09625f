"""What `compare` and `diff --measure` share: running a paired comparison, its screen and its document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.boards.board import GridName
from harness.boards.find import find_board
from harness.cli.common import say
from harness.cli.device import device_held
from harness.cli.formatting import format_case, format_class, format_indices, format_sides, format_time, printable
from harness.cli.operands import Side
from harness.cli.preflight import check_text
from harness.cli.writing import ends_with, plain_table, print_table, write, write_traceback
from harness.evaluation.record import IsolationLevel
from harness.measure.comparison import Judgement, Ratio, Verdict, Why
from harness.measure.processes import MOST
from harness.measure.signed_rank import FEWEST

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.comparing.record import CaseComparison, PairedComparison

VERDICT_STYLE = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "", Verdict.UNSURE: "yellow"}
_WHY_NONE = {
    Why.NULL_OFF_CENTRE: "No verdict: measured against itself, A already differs by more than 0.5 %, and B does not "
    "differ by far more.",
    Why.TOO_SHORT: "No verdict: a call takes no longer than a call of nothing.",
    Why.TOO_FEW: "No verdict: there are fewer units than an interval takes.",
}


_LEGEND = (
    "± is half the 99 % interval; from 10 % on both its ends are given, as in −60 +46 %. A/A is A against itself: what "
    "this machine alone makes of equal code. B is called faster or slower where its interval leaves out 1 and its "
    "ratio differs from 1 by more than a limit. That is 0.5 %; or as far as the interval of A/A reaches from 1, if "
    "that is more; or three times as far, if it reaches more than 1 % from 1."
)


def measure(
    board: str,
    a: Side,
    b: Side,
    *,
    only: tuple[int, ...] = (),
    grid: GridName | None = None,
    budget_s: float | None = None,
    processes: int | None = None,
    isolation: IsolationLevel | None = None,
    seed: int | None = None,
) -> PairedComparison:
    """Run the comparison, telling each case on standard error as it ends. Raises RequestError, before anything starts,
    for a text that can't run on the board."""
    from harness.cli.log_folders import run_logs
    from harness.comparing.paired import DEFAULT_BUDGET_S, Comparing, Request
    from harness.comparing.record import CaseComparison

    loaded = find_board(board)
    for side in (a, b):
        check_text(side.source, side.where, loaded)
    request = Request(
        board=loaded,
        source_a=a.source,
        source_b=b.source,
        names=(Path(a.file_name).name, Path(b.file_name).name),
        grid=grid,
        only=only,
        budget_s=DEFAULT_BUDGET_S if budget_s is None else budget_s,
        processes=processes,
        isolation=isolation,
        seed=seed,
    )
    with device_held(), run_logs() as logs:
        comparing = Comparing(request, logs.folder)
        start = comparing.result
        say(f"comparing on {format_class(start.of)}: A = {a.title}, B = {b.title}")
        for event in comparing.events():
            if isinstance(event, CaseComparison):
                say(f"  case {event.index} ({format_case(event.spec)}) {_line(event)}")
        printed = any(file.stat().st_size for file in logs.folder.glob("*/*.log"))
        logs.wanted = comparing.result.failed or printed
    return comparing.result if logs.wanted else replace(comparing.result, log="")


def render_comparison(console: Console, result: PairedComparison, a: Side, b: Side) -> None:
    """Write the screen: what was compared, a row for each case, the verdict on the score, what it rests on."""
    write(console, f"A  {a.title}", style="bold")
    write(console, f"B  {b.title}", style="bold")
    write(console, f"{printable(result.leaderboard)} · {format_class(result.of)}")
    console.print()
    print_table(console, _table(result))
    faults: dict[tuple[object, ...], list[CaseComparison]] = {}
    for case in result.cases:
        if case.fault is not None:
            faults.setdefault((case.fault.name, case.fault.status, case.fault.reason), []).append(case)
    for cases in faults.values():
        _write_fault(console, cases)
    console.print()
    _write_verdict(console, result)
    if result.log:
        write(console, f"What was printed: {printable(result.log)}", style="dim")
    if any(case.judgement is not None for case in result.cases):
        write(
            console, f"Both ran in turns (A B B A) on the same inputs, {_of_processes(result)}. {_LEGEND}", style="dim"
        )


def _of_processes(result: PairedComparison) -> str:
    """`in 8 processes of each version (case 13 in 4, case 14 in 1: no memory or time for more)`."""
    if result.processes == 1:
        return "in one process of each version"
    counts = sorted({case.processes for case in result.cases if case.processes < result.processes}, reverse=True)
    fewer = [
        f"case {format_indices([case.index for case in result.cases if case.processes == count])} in {count}"
        for count in counts
    ]
    but = f" ({', '.join(fewer)}: no memory or time for more)" if fewer else ""
    return f"in {result.processes} processes of each version{but}"


def format_judged(ratio: Ratio | None) -> str:
    """`1.0103 ± 0.24 %`, or `0.32 −86 +306 %`."""
    if ratio is None:
        return "–"
    percent = 100 * ratio.interval.half_width / ratio.value
    digits = 4 if percent < 1 else 3 if percent < 10 else 2
    return f"{ratio.value:.{digits}f} {format_sides(ratio.value, ratio.interval, 2 if percent < 1 else 1)}"


def _line(case: CaseComparison) -> str:
    judgement = case.judgement
    if judgement is None:
        assert case.fault is not None
        return f"{case.fault.whose}: {case.fault.status}: {case.fault.reason.message}"
    ratio = f"{format_judged(judgement.ratio)} " if judgement.verdict is not None else ""
    return f"{ratio}{_verdict_word(judgement)} ({len(case.paired)} units)"


def _verdict_word(judgement: Judgement) -> str:
    return judgement.verdict.value if judgement.verdict is not None else "no verdict"


def _table(result: PairedComparison) -> Table:
    from rich.text import Text

    from harness.comparing.record import Name

    table = plain_table()
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("case", min_width=len("score"), overflow="fold")
    table.add_column("A", justify="right", no_wrap=True)
    table.add_column("B", justify="right", no_wrap=True)
    table.add_column("B/A", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("A/A", justify="right", no_wrap=True)
    table.add_column("units", justify="right", no_wrap=True)
    for case in result.cases:
        judgement = case.judgement
        table.add_row(
            str(case.index),
            Text(format_case(case.spec)),
            format_time(case.figure(Name.A)),
            format_time(case.figure(Name.B)),
            "" if judgement is None else format_judged(judgement.ratio if judgement.verdict else None),
            _verdict_text(judgement, failed=case.fault.whose if case.fault is not None else ""),
            "" if judgement is None else format_judged(judgement.null),
            str(len(case.paired)),
        )
    overall = result.overall
    if overall is not None and len(result.cases) > 1:
        table.add_section()
        ratio = format_judged(overall.ratio if overall.verdict else None)
        table.add_row("", "score", "", "", ratio, _verdict_text(overall), format_judged(overall.null), "")
    return table


def _verdict_text(judgement: Judgement | None, failed: str = "") -> Any:
    from rich.text import Text

    if judgement is None:
        return Text(f"{failed} failed" if failed else "", style="red")
    if judgement.verdict is None:
        return Text("no verdict", style="yellow")
    return Text(judgement.verdict.value, style=VERDICT_STYLE[judgement.verdict])


def _write_verdict(console: Console, result: PairedComparison) -> None:
    overall = result.overall
    if overall is not None and overall.verdict is not None and overall.ratio is not None:
        words = {
            Verdict.FASTER: f"B is faster: {_percent(overall.ratio)}",
            Verdict.SLOWER: f"B is slower: {_percent(overall.ratio)}",
            Verdict.SAME: f"A and B take the same time, within {100 * overall.threshold:.1f} %",
            Verdict.UNSURE: f"Unsure: the interval is too wide to say. {_remedy(result, overall.ratio)}",
        }
        write(console, words[overall.verdict] + ".", style=f"bold {VERDICT_STYLE[overall.verdict]}".strip())
        return
    if result.failed:
        write(console, "No verdict on the score: not every case ran on both sides.", style="bold red")
        return
    reasons = [case.judgement for case in result.cases if case.judgement and case.judgement.verdict is None]
    if overall is not None and overall.verdict is None:
        reasons.append(overall)
    for why in dict.fromkeys(judgement.why for judgement in reasons):
        write(console, _WHY_NONE[why], style="bold yellow")
    if any(judgement.why is Why.NULL_OFF_CENTRE for judgement in reasons):
        remedy = "Stop what else runs on it, or give it more time with --budget."
        write(console, f"This machine is too restless to tell. {remedy}")


def _remedy(result: PairedComparison, ratio: Ratio) -> str:
    fewest = [case for case in result.cases if len(case.paired) <= max(FEWEST, case.processes)]
    if fewest:
        units = len(fewest[0].paired)
        return f"Some cases had {units} units, the fewest there can be; more time (--budget) gives them more"
    if ratio.processes is None:
        return "More time (--budget) or a quieter machine narrows it"
    if not ratio.rests_on_processes:
        return "More time (--budget) or more processes (--processes) narrow it"
    more = "; more of them (--processes) help" if ratio.processes.count < MOST else ""
    return f"Processes of one version differ that much{more}"


def _percent(ratio: Ratio) -> str:
    off = 100 * abs(ratio.value - 1)
    return f"{off:.{2 if ratio.half_width < 0.01 else 1}f} % {'less' if ratio.value < 1 else 'more'} time than A"


def _write_fault(console: Console, cases: Sequence[CaseComparison]) -> None:
    """What went wrong, alike in all of these cases."""
    case = cases[0]
    assert case.fault is not None
    console.print()
    which = format_indices(each.index for each in cases)
    write(console, f"case {which}, {case.fault.whose}: {case.fault.status.value}", style="red")
    if not ends_with(case.fault.traceback, case.fault.reason.message):
        write(console, f"{printable(case.fault.reason.message)} ({case.fault.reason.code.value})", indent=2)
    write_traceback(console, case.fault.traceback)

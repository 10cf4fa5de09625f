"""A difference and its screen: code, figures, resources, techniques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.formatting import format_case, format_class, format_ratio, format_time, printable, printable_name
from harness.cli.operands import Side
from harness.cli.writing import plain_table, print_table, write
from harness.evaluation.left_out import cases_that_ran
from harness.evaluation.record import Mode, Status
from harness.history.code_diff import DiffLine, LineKind
from harness.history.comparison import Change, Comparison
from harness.measure.comparison import Verdict
from harness.measure.statistics import Figure
from harness.store.rows import EvaluationRow

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from harness.comparing.record import PairedComparison
    from harness.compiling.comparison import CompilationChange
    from harness.techniques import Finding, TechniqueChange

LINE_STYLE = {LineKind.ADDED: "green", LineKind.REMOVED: "red", LineKind.FOLD: "dim", LineKind.SAME: ""}
VERDICT_STYLE = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "", Verdict.UNSURE: "yellow"}


@dataclass(frozen=True)
class Difference:
    """Everything that `diff` shows. `comparison` is None when a side was never evaluated, `measured` when nobody asked
    for a paired measurement."""

    old: Side
    new: Side
    lines: tuple[DiffLine, ...]
    comparison: Comparison | None
    old_techniques: tuple[Finding, ...]
    new_techniques: tuple[Finding, ...]
    measured: PairedComparison | None = None
    compilations: tuple[CompilationChange, ...] = ()
    """By architecture, where both sides were compiled without the device."""
    compared: tuple[EvaluationRow, EvaluationRow] | None = None
    """Those whose figures `comparison` holds."""
    boards_differ: str = ""
    """Whose board is which, where they are not one: then no times are compared."""
    can_measure: bool = True
    """Whether both could be measured here: on one board, which is there."""

    @property
    def renamed(self) -> tuple[str, str] | None:
        """Both names of the file, where they differ."""
        old, new = Path(self.old.file_name).name, Path(self.new.file_name).name
        return None if old == new else (old, new)

    @property
    def technique_changes(self) -> list[TechniqueChange]:
        from harness.techniques import technique_changes

        return technique_changes(self.old_techniques, self.new_techniques)

    @property
    def operands(self) -> str:
        """The two operands as a command takes them."""
        from shlex import quote

        return " ".join(
            str(side.submission.id) if side.submission is not None else quote(printable_name(side.file_name))
            for side in (self.old, self.new)
        )

    @property
    def endings(self) -> list[str]:
        """A line for each side that did not pass, or that has no figures at all, and one on a score that is missing."""
        sides = {"old": self.old, "new": self.new}
        lines = []
        for name, side in sides.items():
            if side.submission is None:
                lines.append(f"{name}: {side.short} is a file, not a submission, so it has no figures on record")
            elif not side.evaluations:
                lines.append(f"{name}: {side.short} was not evaluated")
        if self.compared is None or self.comparison is None:
            return [*lines, self.boards_differ] if self.boards_differ else lines
        rows = dict(zip(sides, self.compared, strict=True))
        lines += [f"{name}: {_ending(row)}" for name, row in rows.items() if row.outcome.status is not Status.PASSED]
        scoreless = [f"{name} has none ({_why_no_score(row)})" for name, row in rows.items() if row.score is None]
        if scoreless and self.comparison.cases:
            lines.append(f"no score is compared: {', '.join(scoreless)}")
        return lines


def _ending(row: EvaluationRow) -> str:
    """`failed: 3 of 1024 wrong`, on one line."""
    status, reason = row.outcome.status.value, row.outcome.reason
    if reason is None:
        return status
    message = reason.message.strip().partition("\n")[0]
    return f"{status}: {printable_name(message) or reason.code.value.replace('_', ' ')}"


def _why_no_score(row: EvaluationRow) -> str:
    if row.outcome.status is not Status.PASSED:
        return row.outcome.status.value
    if row.header.mode is Mode.TEST:
        return "test mode"
    part = cases_that_ran(row.outcome.rank_reason)
    return f"it ran {part}" if part else "a benchmark without a time"


def render_difference(console: Console, difference: Difference) -> None:
    old, new = difference.old, difference.new
    write(console, f"old  {old.title}", style="bold")
    write(console, f"new  {new.title}", style="bold")
    if difference.renamed is not None:
        write(console, f"renamed  {printable(difference.renamed[0])} → {printable(difference.renamed[1])}")
    console.print()
    _write_code(console, difference)
    if difference.measured is not None:
        from harness.cli.comparing import render_comparison

        console.print()
        render_comparison(console, difference.measured, old, new)
    else:
        if difference.endings or difference.comparison is not None:
            console.print()
        for line in difference.endings:
            write(console, line, style="yellow")
        if difference.comparison is not None:
            _write_figures(console, difference)
        elif difference.old.source != difference.new.source:
            _offer_to_measure(console, difference)
    if difference.compilations:
        from harness.cli.compile_diff import render_compilation_changes

        render_compilation_changes(console, difference.compilations)
    _write_techniques(console, difference)


# -- code -------------------------------------------------------------------------------------------------------------


def _write_code(console: Console, difference: Difference) -> None:
    if not difference.lines:
        write(console, "The code is the same.")
        return
    from rich.text import Text

    if not console.is_terminal:
        for line in difference.lines:  # never wrapped: what is piped is read by programs, too
            console.print(Text(printable(str(line)), style=LINE_STYLE[line.kind]), soft_wrap=True)
        return
    old = _highlighted(difference.old)
    new = old if difference.old.source == difference.new.source else _highlighted(difference.new)
    from rich.table import Table

    grid = Table.grid()
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")  # a long line goes on under its own beginning
    width = len(str(max(len(old), len(new))))
    for line in difference.lines:
        numbers = f"{line.old_line or '':>{width}} {line.new_line or '':>{width}} "
        sign = Text("" if line.kind is LineKind.FOLD else line.kind.value, style=LINE_STYLE[line.kind])
        grid.add_row(numbers, sign, _code_text(line, old, new))
    console.print(grid)


def _highlighted(side: Side) -> list[Text]:
    """The source's lines with syntax colours from the terminal's own palette."""
    from rich.syntax import Syntax

    source = printable(side.source).replace("\t", "    ")
    lexer = Syntax.guess_lexer(side.file_name, code=source)
    text = Syntax(source, lexer, theme="ansi_dark", background_color="default").highlight(source)
    return list(text.split("\n", allow_blank=True))


def _code_text(line: DiffLine, old: Sequence[Text], new: Sequence[Text]) -> Text:
    """The code with its syntax colours; words that changed stand out even where there is no colour."""
    from rich.text import Text

    style = LINE_STYLE[line.kind]
    if line.kind is LineKind.FOLD:
        return Text(str(line), style=style)
    lines, number = (new, line.new_line) if line.new_line is not None else (old, line.old_line)
    code = lines[number - 1].copy() if number is not None and number <= len(lines) else Text(printable(line.text))
    if code.plain == line.text:  # else a tab or a control character was written out, and positions moved
        for start, stop in line.changed:
            code.stylize(f"bold underline {style}", start, stop)
    if line.kind is not LineKind.SAME and not line.changed:
        code.stylize(style)
    return code


# -- figures ----------------------------------------------------------------------------------------------------------


def _write_figures(console: Console, difference: Difference) -> None:
    comparison, new = difference.comparison, difference.new
    assert comparison is not None
    assert difference.compared is not None
    assert new.submission is not None
    if comparison.refusal:
        write(console, f"No comparison: {printable(comparison.refusal)}.", style="yellow")
        return
    if not comparison.cases and comparison.score is None:
        write(console, "Neither was benchmarked, so there are no figures to compare.")
        return
    write(console, format_class(difference.compared[1].rank_class(new.submission.leaderboard)))
    print_table(console, _table(comparison))
    for note in comparison.notes:
        write(console, note, style="dim")
    if comparison.offers_measuring:
        _offer_to_measure(console, difference)


def _offer_to_measure(console: Console, difference: Difference) -> None:
    if not difference.can_measure:
        return
    write(console, f"To measure both now, in turns: harness diff {difference.operands} --measure", style="dim")


def _table(comparison: Comparison) -> Table:
    from rich.text import Text

    table = plain_table()
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("benchmark")
    table.add_column("old", justify="right", no_wrap=True)
    table.add_column("new", justify="right", no_wrap=True)
    table.add_column("new/old", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for case in comparison.cases:
        index = case.new_index if case.new_index is not None else case.old_index
        table.add_row(
            str(index),
            Text(format_case(case.spec)),
            time_or_status(case.old, case.old_status, comparison),
            time_or_status(case.new, case.new_status, comparison),
            Text(ratio_text(case.change, comparison)),
            _verdict_text(case.change),
        )
    if comparison.score is not None:
        table.add_section()
        score = comparison.score
        table.add_row(
            "",
            "score",
            format_time(score.old, comparison.protocol),
            format_time(score.new, comparison.protocol),
            Text(ratio_text(score, comparison)),
            _verdict_text(score),
        )
    return table


def time_or_status(figure: Figure | None, status: Status | None, comparison: Comparison) -> str:
    if figure is not None:
        return format_time(figure, comparison.protocol)
    return "not run" if status is None else "–" if status is Status.PASSED else status.value


def ratio_text(change: Change | None, comparison: Comparison) -> str:
    return "" if change is None else format_ratio(change.ratio, change.ratio_interval, comparison.protocol)


def _verdict_text(change: Change | None) -> Text:
    from rich.text import Text

    if change is None or change.verdict is None:
        return Text("")
    return Text(change.verdict.value, style=VERDICT_STYLE[change.verdict])


# -- techniques -------------------------------------------------------------------------------------------------------


def _write_techniques(console: Console, difference: Difference) -> None:
    from rich.text import Text

    from harness.history.technique_rows import technique_rows, value_words

    rows = technique_rows(difference.technique_changes)
    if not rows:
        return
    console.print()
    table = plain_table()
    table.add_column("technique", no_wrap=True)
    table.add_column("old", overflow="fold")
    table.add_column("new", overflow="fold")
    for row in rows:
        table.add_row(
            Text(printable(row.name)),
            Text(printable(value_words(row.old)), style="red" if row.old is not None else "dim"),
            Text(printable(value_words(row.new)), style="green" if row.new is not None else "dim"),
        )
    print_table(console, table)

"""What `diff` shows of two compilations: registers 168 → 96, spill bytes 0 → 412."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.formatting import printable
from harness.cli.writing import write
from harness.compiling.comparison import CompilationChange, KernelChange, KernelFate, Trend

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLE = {Trend.BETTER: "green", Trend.WORSE: "red", Trend.CHANGED: ""}


def render_compilation_changes(console: Console, changes: Sequence[CompilationChange]) -> None:
    """One paragraph an architecture: a line for every kernel that differs, its figures that are worse in red."""
    from rich.text import Text

    for change in changes:
        console.print()
        write(console, f"compiled for {change.architecture}", style="bold")
        if change.refusal:
            write(console, f"No comparison: {printable(change.refusal)}.", style="yellow")
        same = [each for each in change.kernels if each.fate is KernelFate.SAME]
        for each in change.kernels:
            if each.fate is not KernelFate.SAME:
                _write_hanging(console, _line(each))
        if same:
            names = ", ".join(dict.fromkeys(printable(each.name) for each in same))
            _write_hanging(console, Text(f"the same: {names}", style="dim"))
        for note in change.notes:
            write(console, printable(note), style="dim")


def _write_hanging(console: Console, text: Text) -> None:
    """A paragraph that goes on further in than it begins."""
    from rich.text import Text

    # Line by line, since rich leaves blanks at the ends of wrapped lines.
    for number, line in enumerate(text.wrap(console, max(20, console.width - 4))):
        line.rstrip()
        console.print(Text("    " if number else "  ") + line, soft_wrap=True)


def _line(change: KernelChange) -> Text:
    from rich.text import Text

    text = Text(f"{printable(change.name)}: ")
    if change.fate is not KernelFate.CHANGED:
        return text.append("new" if change.fate is KernelFate.ADDED else "gone")
    for number, each in enumerate(change.changes):
        text.append(", " if number else "").append(str(each), style=_STYLE[each.trend])
    return text


def compilation_change_document(change: CompilationChange) -> dict[str, Any]:
    """A change as `--json` has it."""
    return {
        "architecture": change.architecture,
        "refusal": change.refusal or None,
        "kernels": [
            {
                "name": each.name,
                "fate": each.fate.value,
                "changes": [{"name": c.name, "old": c.old, "new": c.new, "trend": c.trend.value} for c in each.changes],
            }
            for each in change.kernels
        ],
        "notes": list(change.notes),
    }

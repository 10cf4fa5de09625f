"""How text and tables get onto a console: wrapped, or, where they are there to be copied, as they are."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from harness.cli.formatting import ending, printable_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TRACEBACK_LINES = 12
"""How much of a traceback's end a screen shows; `--json` has all of it."""
_TIED = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s\b|\+\d+ %))|(?<=±) ")
_TIE = "\ue000"
"""A character of one cell that no text of ours has; rich breaks lines at every kind of blank."""


def write(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """A paragraph of plain text, wrapped and indented; square brackets in it mean nothing. A number and its unit stay
    on one line."""
    from rich.text import Text

    # Line by line, since rich leaves blanks at the ends of wrapped lines, and its padding fills them all.
    for line in Text(_TIED.sub(_TIE, text), style=style).wrap(console, max(20, console.width - indent)):
        line.plain = line.plain.replace(_TIE, " ")
        line.rstrip()
        console.print(Text(" " * indent) + line if line else "", soft_wrap=True)


def write_as_it_is(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Lines that are never wrapped: what is there to be copied, or read by programs."""
    from rich.text import Text

    for line in text.split("\n"):
        console.print(Text(" " * indent + line if line else "", style=style), soft_wrap=True)


def write_traceback(console: Console, traceback: str) -> None:
    """The end of a submission's traceback, if there is one."""
    if traceback.strip():
        write_as_it_is(console, ending(traceback, TRACEBACK_LINES), style="dim", indent=2)


def ends_with(traceback: str, message: str) -> bool:
    """Whether a traceback's last line is the message, which then need not be told before it."""
    lines = traceback.rstrip().splitlines()
    return bool(lines) and lines[-1].strip() == message.strip()


def with_place(text: str, path: str) -> str:
    """A line that ends with a path, with a word where nothing is there: logs are deleted, and those of an imported
    submission are on another machine."""
    there = os.path.lexists(path)
    return printable_name(text if there else f"{text} (no longer there)")


def print_table(console: Console, table: Table) -> None:
    """Print a table without the blanks that fill the cells of its last column."""
    from rich.segment import Segment
    from rich.text import Text

    options = console.options.update(width=console.width)
    for line in Segment.split_lines(console.render(table, options)):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line if not segment.control))
        text.rstrip()
        console.print(text, soft_wrap=True)


def plain_table() -> Table:
    """A table without frames, with a rule under its header, that uses only the width it needs."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="")

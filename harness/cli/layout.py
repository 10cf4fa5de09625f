"""Tables that fit the terminal: names give way, figures never do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.cli.formatting import cells, printable_name, shortened

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

WIDE, NARROW = 100, 72
"""From `WIDE` columns on a table has room for what is good to know; below `NARROW` not for dates."""
LEAST_NAME, MOST_NAME = 8, 40
_GAP = 2
"""Blanks between two columns of `plain_table`."""


@dataclass(frozen=True)
class Column:
    """`name` is its header. A column of names is shortened where the table has no room for all of them."""

    name: str
    right: bool = False
    of_names: bool = False


def fitted_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> Table:
    """A table of at most `width` cells, where the figures leave each name eight. Plain strings are taken as they are,
    square brackets included."""
    from rich.text import Text

    from harness.cli.report import plain_table

    names = [at for at, column in enumerate(columns) if column.of_names]
    texts = [[printable_name(str(cell)) if at in names else str(cell) for at, cell in enumerate(row)] for row in rows]
    wanted = [max(map(_width, (column.name, *(row[at] for row in texts)))) for at, column in enumerate(columns)]
    room = width - sum(wanted) + sum(wanted[at] for at in names) - _GAP * (len(columns) - 1)
    given = dict(zip(names, shares(room, [min(MOST_NAME, wanted[at]) for at in names]), strict=True))
    table = plain_table()
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
    for row, plain in zip(rows, texts, strict=True):
        table.add_row(
            *(
                Text(shortened(plain[at], given[at])) if at in given else Text(cell) if isinstance(cell, str) else cell
                for at, cell in enumerate(row)
            )
        )
    return table


def shares(room: int, wanted: Sequence[int]) -> list[int]:
    """How many cells each column gets: what it wants, while there is room; else the widest give way, down to
    `LEAST_NAME`."""
    given = list(wanted)
    while given and sum(given) > room and max(given) > LEAST_NAME:
        given[given.index(max(given))] -= 1
    return given


def _width(text: str) -> int:
    return max(map(cells, text.split("\n")))

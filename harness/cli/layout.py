"""Tables that fit the terminal: names are shortened, figures never are."""

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
LEAST_NAME, FAIR_NAME, MOST_NAME = 8, 10, 40
"""Cells of a name: how far it is shortened; where columns go before it is shortened further; the most it gets."""
_GAP = 2
"""Blanks between two columns of `plain_table`."""


@dataclass(frozen=True)
class Column:
    """`name` is its header. A column of names is shortened where the table has no room for all of them; one that
    `goes` is left out where names would have less than `FAIR_NAME` cells, the lowest number first; an empty one where
    they would be shortened at all."""

    name: str
    right: bool = False
    of_names: bool = False
    goes: int | None = None


def fitted_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> Table:
    """A table of at most `width` cells, where the figures leave each name eight. Plain strings are taken as they are,
    square brackets included."""
    from rich.text import Text

    from harness.cli.writing import plain_table

    names = [at for at, column in enumerate(columns) if column.of_names]
    texts = [[printable_name(str(cell)) if at in names else str(cell) for at, cell in enumerate(row)] for row in rows]
    wanted = [max(map(_width, (column.name, *(row[at] for row in texts)))) for at, column in enumerate(columns)]
    shown = _those_that_stay(columns, texts, wanted, width)
    room = width - sum(wanted[at] for at in shown if at not in names) - _GAP * (len(shown) - 1)
    given = dict(zip(names, shares(room, [min(MOST_NAME, wanted[at]) for at in names]), strict=True))
    table = plain_table()
    for at in shown:
        table.add_column(columns[at].name, justify="right" if columns[at].right else "left", no_wrap=True)
    for row, plain in zip(rows, texts, strict=True):
        cells_of_row = ((at, row[at]) for at in shown)
        table.add_row(
            *(
                Text(shortened(plain[at], given[at])) if at in given else Text(cell) if isinstance(cell, str) else cell
                for at, cell in cells_of_row
            )
        )
    return table


def _those_that_stay(
    columns: Sequence[Column], texts: Sequence[Sequence[str]], wanted: Sequence[int], width: int
) -> list[int]:
    """The positions of the columns that are shown. Where names must be shortened, none that is empty."""
    shown = list(range(len(columns)))
    if _taken(shown, columns, wanted) > width:
        shown = [at for at in shown if columns[at].of_names or any(row[at] for row in texts) or not texts]
    going = sorted((column.goes, at) for at, column in enumerate(columns) if column.goes is not None)
    for _, at in going:
        least = sum(min(FAIR_NAME, wanted[each]) if columns[each].of_names else wanted[each] for each in shown)
        if least + _GAP * (len(shown) - 1) <= width:
            break
        shown.remove(at)
    return shown


def _taken(shown: Sequence[int], columns: Sequence[Column], wanted: Sequence[int]) -> int:
    """The cells of a line where no name is shortened further than is done anyway."""
    each = (min(MOST_NAME, wanted[at]) if columns[at].of_names else wanted[at] for at in shown)
    return sum(each) + _GAP * (len(shown) - 1)


def shares(room: int, wanted: Sequence[int]) -> list[int]:
    """How many cells each column gets: what it wants, while there is room; else the widest give way, down to
    `LEAST_NAME`."""
    given = list(wanted)
    while given and sum(given) > room and max(given) > LEAST_NAME:
        given[given.index(max(given))] -= 1
    return given


def _width(text: str) -> int:
    return max(map(cells, text.split("\n")))

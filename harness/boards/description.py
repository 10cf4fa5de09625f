"""What a board's description says of its data, in the few forms that can be compared with the data itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.boards import expressions
from harness.boards.board import Spec
from harness.errors import RequestError


def described_names(description: str) -> tuple[str, ...] | None:
    """The names on the description's line `data = (a, b, …)`, or `data = a`; None where there is no such line.

    The line may be indented, in backquotes, and go on over further lines until its bracket closes.
    """
    match = re.search(r"(?m)(?:^|`)[ \t]*data = (\((?P<many>[^)]*)\)|(?P<one>[A-Za-z_]\w*))", description)
    if match is None:
        return None
    if match["one"]:
        return (match["one"],)
    return tuple(name.split("#")[0].strip() for name in match["many"].split(",") if name.strip())


def described_form(description: str, name: str) -> tuple[str, tuple[str, ...]] | None:
    """The dtype and dimensions that the description gives for `name`, or None where it says neither in these words.

    Understood: `name`: `dtype [d0, d1]`, and: name is [d0, d1], dtype. The dtype is empty where it is not given.
    """
    quoted = re.escape(name)
    start = rf"(?m)(?:`{quoted}`|(?<![\w.]){quoted})\s*(?::|is)\s*`?"
    match = re.search(start + r"(?P<before>\w+)?\s*\[(?P<dims>[^\]\n]*)\](?:`?,?\s*`?(?P<after>\w+))?", description)
    if match is None:
        return None
    words = [word for word in (match["before"], match["after"]) if word and _is_dtype(word)]
    return (words[0] if words else ""), tuple(_split(match["dims"]))


def _is_dtype(word: str) -> bool:
    return word.startswith(("float", "bfloat", "int", "uint", "bool", "complex"))


def _split(dims: str) -> list[str]:
    """`ceil(m/128), min(a, b)` at the commas outside brackets."""
    parts, depth = [""], 0
    for character in dims:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def dimensions(dims: Sequence[str], spec: Spec) -> tuple[int, ...] | None:
    """The dimensions' values for a case, or None where one is no expression of the case's keys."""
    values = []
    for dim in dims:
        try:
            value = expressions.evaluate(dim.replace("·", "*"), spec)
        except RequestError:
            return None
        values.append(int(value))
    return tuple(values)

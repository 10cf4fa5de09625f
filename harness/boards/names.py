"""Names that a board may have: they stand in headers, URLs, file names and the database."""

from __future__ import annotations

import re
from collections.abc import Callable

from harness.errors import HarnessError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
ALLOWED = "letters, digits, '.', '_' and '-', starting with a letter or digit"


def check_name(name: str, error: Callable[..., HarnessError], key: str = "") -> str:
    """`name`, or the error that `error(what, key, allowed=…)` makes of it. Case is kept, never compared."""
    if not NAME.fullmatch(name):
        raise error(f"'{name}' can't name a board", key, allowed=ALLOWED)
    if name.isdigit():
        raise error(f"'{name}' can't name a board: a number is a submission's id", key, allowed=ALLOWED)
    return name

"""How to install what is missing, for this very interpreter: lines to copy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_ABOVE_PACKAGE = Path(__file__).resolve().parents[2]


def install(arguments: str) -> str:
    """`/usr/bin/python3 -m pip install ninja`: another interpreter's `pip` would install it elsewhere."""
    return f"{shlex.quote(sys.executable or 'python')} -m pip install {arguments}"


def install_extra(extra: str) -> str:
    """The same for an extra of this package, which is on no index where it runs from a checkout."""
    checkout = checkout_folder()
    if checkout is None:
        return install(f"'harness[{extra}]'")
    return install(f"-e {shlex.quote(f'{checkout}[{extra}]')}")


def checkout_folder() -> Path | None:
    """The folder of the source tree that this package runs from; None when it is installed."""
    project = _ABOVE_PACKAGE / "pyproject.toml"
    try:
        return _ABOVE_PACKAGE if 'name = "harness"' in project.read_text("utf-8") else None
    except OSError:
        return None

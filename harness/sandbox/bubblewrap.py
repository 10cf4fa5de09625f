"""The same plan by way of bubblewrap, where this process may not make namespaces but `bwrap` may.

A new program is started then instead of a fork; confine.py does inside what bubblewrap doesn't: limits and filter.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.evaluation.record import IsolationLevel
from harness.sandbox.discover import PACKAGE
from harness.sandbox.errors import SandboxError
from harness.sandbox.layout import Entry, Kind, layout
from harness.sandbox.plan import SandboxPlan

_CONFINE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from harness.sandbox.confine import main; main()"


def bwrap_argv(plan: SandboxPlan, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` (absolute program path) under `plan`; pass descriptors as usual.

    Made-up files (/etc/passwd and the like) are written to `.etc` in the plan's scratch folder. bwrap ends with the
    program's exit status, or 128 + the signal that ended it.

    Raises SandboxError when bwrap isn't installed, or the plan has no scratch folder.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("find bwrap", detail="not installed", hint="apt install bubblewrap")
    if plan.level is not IsolationLevel.BUBBLEWRAP or plan.scratch is None:
        raise SandboxError("plan bubblewrap", detail="needs a plan of that level with a scratch folder")
    made = Path(plan.scratch) / ".etc"
    made.mkdir(mode=0o755, exist_ok=True)
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    masks = []
    for entry in layout(plan):
        options += _options(entry, made)
        if entry.kind is Kind.MASK and Path(entry.source).is_dir():
            masks += ["--remount-ro", entry.target]
    options += [*masks, "--remount-ro", "/", "--chdir", plan.home]
    for name, value in plan.environment().items():
        options += ["--setenv", name, value]
    inner = [sys.executable, "-c", _CONFINE, str(PACKAGE.parent), json.dumps(plan.to_dict()), *argv]
    return [program, *options, "--", *inner]


def _options(entry: Entry, made: Path) -> list[str]:
    match entry.kind:
        case Kind.BIND:
            return ["--bind" if entry.writable else "--ro-bind", entry.source, entry.target]
        case Kind.DEVICE:
            return ["--dev-bind", entry.source, entry.target]
        case Kind.TMPFS:
            return ["--perms", "1777", "--size", str(entry.size_bytes), "--tmpfs", entry.target]
        case Kind.MASK if Path(entry.source).is_dir():
            return ["--perms", "0755", "--tmpfs", entry.target]
        case Kind.MASK:
            return ["--ro-bind", "/dev/null", entry.target]
        case Kind.SYMLINK:
            return ["--symlink", entry.source, entry.target]
        case Kind.PROC:
            return ["--proc", entry.target]
        case Kind.FILE:
            file = made / Path(entry.target).name
            file.write_text(entry.source)
            return ["--ro-bind", str(file), entry.target]

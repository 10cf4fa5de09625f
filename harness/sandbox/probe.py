"""What this machine can give: every level is really tried, in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.evaluation.record import IsolationLevel
from harness.sandbox.bubblewrap import bwrap_argv
from harness.sandbox.cgroup import Cgroup
from harness.sandbox.defaults import default_plan
from harness.sandbox.discover import PACKAGE
from harness.sandbox.enter import enter
from harness.sandbox.errors import SandboxError
from harness.sandbox.plan import SandboxPlan
from harness.scratch import Scratch

PREFERENCE = (IsolationLevel.NAMESPACES, IsolationLevel.BUBBLEWRAP, IsolationLevel.UID, IsolationLevel.NONE)
"""From most to least isolating."""

_TIMEOUT_S = 20.0
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from harness.sandbox.probe import main; main()"


@dataclass(frozen=True)
class SandboxAbility:
    """What can be had here, and why the rest can't."""

    reasons: dict[IsolationLevel, str]
    """By level; empty when it is available."""
    notes: dict[IsolationLevel, tuple[str, ...]]
    """What is weaker than it could be at that level."""
    cgroup: str
    """Why there's no control group for memory; empty when there is one."""

    @property
    def levels(self) -> tuple[IsolationLevel, ...]:
        """The available levels, most isolating first."""
        return tuple(level for level in PREFERENCE if not self.reasons[level])

    @property
    def best(self) -> IsolationLevel:
        return self.levels[0]


@functools.cache
def probe() -> SandboxAbility:
    """Try every level once (about 0.5 s; later calls give the same answer).

    A new program does it, since the calling process may have threads and a CUDA context.
    """
    try:
        run = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(PACKAGE.parent)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        answer = json.loads(run.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        answer = {"cgroup": "not tried", "levels": {level: [f"the probe failed: {detail}", []] for level in PREFERENCE}}
    found = {IsolationLevel(name): value for name, value in answer["levels"].items()}
    found[IsolationLevel.NONE] = ["", []]
    return SandboxAbility(
        reasons={level: reason for level, (reason, _) in found.items()},
        notes={level: tuple(notes) for level, (_, notes) in found.items()},
        cgroup=answer["cgroup"],
    )


def best_level() -> IsolationLevel:
    """The most isolating level that this machine gives."""
    return probe().best


def main() -> None:
    """The probing program: one JSON document on stdout."""
    levels = {level.value: _tried(level) for level in PREFERENCE}
    print(json.dumps({"levels": levels, "cgroup": _try_cgroup()}))


def _tried(level: IsolationLevel) -> tuple[str, tuple[str, ...]]:
    """Reason (empty when it works) and notes."""
    folder = Scratch.make("harness-probe-", 0o755)
    try:
        scratch = folder.path / "scratch"
        scratch.mkdir()
        try:
            plan = default_plan(level, scratch=scratch, cuda=True, scratch_bytes=1 << 20)
            if level is IsolationLevel.BUBBLEWRAP:
                argv = bwrap_argv(plan, [sys.executable, "-c", "import colorsys"])
                run = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S)
                reason = run.stderr.strip().splitlines()[-1] if run.returncode and run.stderr.strip() else ""
                return reason or (f"exit status {run.returncode}" if run.returncode else ""), plan.notes
            return _try_to_enter(plan), plan.notes
        except (SandboxError, OSError, subprocess.SubprocessError) as error:
            return str(error), ()
    finally:
        folder.remove()


def _try_to_enter(plan: SandboxPlan) -> str:
    answer_end, answer = os.pipe()
    child = os.fork()
    if not child:
        text = "no answer"
        try:
            enter(plan, keep_fds=(answer,))
            import colorsys  # noqa: F401  any module that isn't loaded yet: the interpreter must be readable

            Path("file").write_text("")
            text = ""
        except BaseException as error:
            text = str(error)
        finally:
            os.write(answer, json.dumps(text).encode())
            os._exit(0)
    os.close(answer)
    with os.fdopen(answer_end) as answers:
        raw = answers.read()
    os.waitpid(child, 0)
    return json.loads(raw) if raw else "it ended without an answer"


def _try_cgroup() -> str:
    try:
        group = Cgroup.create(f"harness-probe-{os.getpid()}", memory_bytes=1 << 30, processes=64)
    except SandboxError as error:
        return str(error)
    group.remove()
    return ""

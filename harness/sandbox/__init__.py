"""What a worker process is put in before it reads a submission, how much of it this machine can give, and its end.

Standard library only; nothing here imports torch.
"""

from __future__ import annotations

from harness.sandbox.bubblewrap import bwrap_argv
from harness.sandbox.cgroup import Cgroup
from harness.sandbox.defaults import default_plan
from harness.sandbox.enter import enter
from harness.sandbox.environment import clean_environment
from harness.sandbox.errors import SandboxError
from harness.sandbox.freeze import FreezeError, Freezer, RanWhileFrozenError
from harness.sandbox.plan import Bind, SandboxPlan
from harness.sandbox.probe import SandboxAbility, best_level, probe
from harness.sandbox.processes import become_subreaper, harden_supervisor, kill_tree
from harness.sandbox.watch import FolderWatcher, MemoryWatcher

__all__ = [
    "Bind",
    "Cgroup",
    "FolderWatcher",
    "FreezeError",
    "Freezer",
    "MemoryWatcher",
    "RanWhileFrozenError",
    "SandboxAbility",
    "SandboxError",
    "SandboxPlan",
    "become_subreaper",
    "best_level",
    "bwrap_argv",
    "clean_environment",
    "default_plan",
    "enter",
    "harden_supervisor",
    "kill_tree",
    "probe",
]

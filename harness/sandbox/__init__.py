"""What a worker process is put in before it reads a submission, how much of it this machine can give, and its end.

Standard library only; nothing here imports torch.
"""

from __future__ import annotations

from harness.sandbox.defaults import default_plan
from harness.sandbox.enter import enter
from harness.sandbox.errors import SandboxError
from harness.sandbox.plan import Bind, SandboxPlan
from harness.sandbox.processes import become_subreaper, harden_supervisor, kill_tree

__all__ = [
    "Bind",
    "SandboxError",
    "SandboxPlan",
    "become_subreaper",
    "default_plan",
    "enter",
    "harden_supervisor",
    "kill_tree",
]

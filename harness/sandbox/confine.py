"""Runs inside bubblewrap: `confine PLAN PROGRAM ARGUMENT…` limits itself by the plan and becomes the program."""

from __future__ import annotations

import json
import os
import sys

from harness.sandbox.enter import confine
from harness.sandbox.errors import SandboxError
from harness.sandbox.plan import SandboxPlan

CONFINE_FAILED = 126
"""Exit status when the program wasn't run, as a shell's for a command that can't be executed."""


def main() -> None:
    try:
        confine(SandboxPlan.from_dict(json.loads(sys.argv[1])))
        os.execv(sys.argv[2], sys.argv[2:])
    except (SandboxError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(CONFINE_FAILED)

"""`launch PLAN FD PROGRAM ARGUMENT…`: enter the sandbox that a plan describes, keep FD, become the program.

Runs in a program of its own, because the one that evaluates has threads and may hold a CUDA context.
"""

from __future__ import annotations

import json
import os
import sys

from harness.sandbox import SandboxError, SandboxPlan, enter

_FAILED = 126


def main() -> None:
    """Does not return. Exit status 126 and one line on standard error when the program could not be started."""
    plan_text, descriptor, *argv = sys.argv[1:]
    try:
        enter(SandboxPlan.from_dict(json.loads(plan_text)), keep_fds=(int(descriptor),))
        os.execv(argv[0], argv)
    except (SandboxError, OSError) as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(_FAILED)

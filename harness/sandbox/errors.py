"""The one error of this package."""

from __future__ import annotations

import os

from harness.errors import MachineError


class SandboxError(MachineError):
    """A step of the sandbox failed, so nothing was run in it. Exit status 3.

    `step` names what was tried, `errno` is the kernel's answer (0 when the refusal is ours).
    """

    def __init__(self, step: str, errno: int = 0, *, detail: str = "", hint: str = "") -> None:
        reason = detail or (os.strerror(errno) if errno else "")
        if detail and errno:
            reason = f"{detail}: {os.strerror(errno)}"
        super().__init__(f"{step} failed" + (f": {reason}" if reason else ""), where="sandbox", hint=hint)
        self.step = step
        self.errno = errno

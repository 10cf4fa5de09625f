"""The errors a user may meet, each with the exit status that a script can rely on."""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitStatus(IntEnum):
    """What the command's exit status says."""

    PASSED = 0
    FAILED = 1  # the submission failed or was rejected
    BAD_REQUEST = 2  # usage, file, header or board is wrong
    MACHINE_CANNOT = 3  # this machine can't do it


class HarnessError(Exception):
    """Base of every error shown to a user.

    `what` is one short sentence; `where` names the file, line or key; `allowed` says what would have been accepted;
    `hint` says what to do next. Empty parts are left out of the text.
    """

    exit_status = ExitStatus.BAD_REQUEST

    def __init__(self, what: str, *, where: str = "", allowed: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.allowed = allowed
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.allowed:
            text += f" (allowed: {self.allowed})"
        if self.hint:
            text += f"\n{self.hint}"
        return text


class RequestError(HarnessError):
    """The request was wrong: usage, file, header or board. Exit status 2."""


class MachineError(HarnessError):
    """The request was right, but this machine can't do it. Exit status 3."""

    exit_status = ExitStatus.MACHINE_CANNOT


_DISK_FAULTS = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "no space is left in this user's quota",
    errno.EFBIG: "files may not grow any more (a limit of this process or its file system)",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk fails",
}


def disk_fault(error: BaseException) -> MachineError | None:
    """What to tell of an OSError that is the disk's fault wherever it arises; None for any other error."""
    if isinstance(error, FileNotFoundError) and "usable temporary directory" in str(error):  # tempfile tried them all
        return MachineError("no folder for temporary files can be written", hint="Set TMPDIR to one of yours.")
    if not isinstance(error, OSError) or error.errno not in _DISK_FAULTS:
        return None
    return MachineError(
        _DISK_FAULTS[error.errno],
        where=str(error.filename or "a file"),
        hint="What was recorded before is kept. HARNESS_HOME and TMPDIR name other folders.",
    )


def did_you_mean(name: str, known: list[str]) -> str:
    """A hint such as `Did you mean 'cholesky'?`, or an empty string when nothing is near."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else ""

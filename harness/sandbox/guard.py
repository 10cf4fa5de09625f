"""The two small processes that stay behind when `enter` forks: the guard outside and the init of the PID namespace.

    fork server ── guard (the pid that the fork server knows) ── init (PID 1 inside) ── worker
    fork server ── guard ── worker                                 without a PID namespace

Both run only what is written here, hold none of the worker's channels, can't be traced, and die with their parent.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn

from harness.sandbox import linux
from harness.sandbox.errors import SandboxError
from harness.sandbox.processes import become_subreaper, kill_descendants

_GUARD_FAILED = 70  # EX_SOFTWARE


def close_other_fds(keep: Collection[int]) -> None:
    """Close every file descriptor that isn't in `keep`."""
    low = 0
    for number in sorted(keep):
        if number > low:
            os.closerange(low, number)
        low = number + 1
    try:
        linux.syscall("close_range", low, 0xFFFFFFFF, 0)
    except SandboxError:  # a kernel before 5.9, or no Linux
        os.closerange(low, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20))


@dataclass(frozen=True)
class Tie:
    """What ties a forked child to its guard: ends of pipes, held until `die_with_guard` and `fork_under_init`."""

    life: int
    """Reads end-of-file once the guard is dead."""
    report: int
    """Takes the worker's wait status; -1 without a PID namespace."""


def die_with_parent() -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL, step="die with the parent")


def fork_under_guard(*, pid_namespace: bool) -> Tie:
    """Fork; the caller goes on in the child, the parent stays as its guard and never returns.

    `pid_namespace` says that one was made by unshare before; the child is then its init. Without, orphans of the
    worker become the guard's children, who ends them with the worker.
    """
    guard_end = report_end = -1
    life_end, held_end = os.pipe()
    if pid_namespace:
        guard_end, report_end = os.pipe()
    else:
        become_subreaper()
    try:
        child = os.fork()
    except OSError as error:
        raise SandboxError("fork under a guard", error.errno or 0) from error
    if child:
        _stand_guard(child, guard_end, held_end)
    for end in (held_end, guard_end):
        if end >= 0:
            os.close(end)
    return Tie(life_end, report_end)


def die_with_guard(tie: Tie) -> None:
    """From here on the guard's death is this process's death. A change of uid would undo it: call it after."""
    die_with_parent()
    # A guard that died before that line sends no signal, but its end of the pipe is closed.
    if select.select([tie.life], [], [], 0)[0]:
        os._exit(_GUARD_FAILED)
    os.close(tie.life)


def _stand_guard(child: int, reports: int, held_end: int) -> NoReturn:
    try:
        _be_plain(keep={reports, held_end} - {-1})
        status = _wait_and_collect(child)
        if reports >= 0:
            raw = os.read(reports, 4)
            status = struct.unpack("=i", raw)[0] if len(raw) == 4 else status
        else:
            kill_descendants(os.getpid())
            _collect_dead()
        _end_as(status)
    finally:
        os._exit(_GUARD_FAILED)


def fork_under_init(tie: Tie) -> None:
    """Fork; the child (which is to be the worker) returns, the caller stays as init of the PID namespace.

    Init collects orphans, and when the worker has ended reports its status and ends, and with it all in the namespace.
    """
    try:
        worker = os.fork()
    except OSError as error:
        raise SandboxError("fork the worker", error.errno or 0) from error
    if not worker:
        os.close(tie.report)
        return
    try:
        _be_plain(keep={tie.report})
        status = _wait_and_collect(worker)
        os.write(tie.report, struct.pack("=i", status))
        os._exit(0)
    finally:
        os._exit(_GUARD_FAILED)


def _wait_and_collect(child: int) -> int:
    """Wait for `child`, collecting orphans that end meanwhile; its wait status."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def _collect_dead() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _be_plain(keep: set[int]) -> None:
    """Drop what came with the fork: descriptors, signal handlers, blocked signals, core files, traceability."""
    close_other_fds(keep)
    for _ in {0, 1, 2} - keep:
        # May be missing: the file tree changes under the guard while the init builds its own. Then they stay closed.
        with contextlib.suppress(OSError):
            os.open("/dev/null", os.O_RDWR)  # takes the lowest free number
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(SandboxError):
        linux.prctl(linux.PR_SET_DUMPABLE, 0, step="make the guard non-dumpable")
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _end_as(status: int) -> NoReturn:
    """End the way the worker ended: same exit status, or by the same signal."""
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(128 + os.WTERMSIG(status))  # a signal that ends nobody by default
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)

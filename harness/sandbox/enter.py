"""Put the calling process into the sandbox that a plan describes.

Called in a freshly forked, single-threaded process, before anything of the submission is read.
"""

from __future__ import annotations

import contextlib
import os
import resource
import struct
import sys
import tempfile
from collections.abc import Collection

from harness.evaluation.record import IsolationLevel
from harness.sandbox import linux, mounts, seccomp
from harness.sandbox.errors import SandboxError
from harness.sandbox.guard import (
    Tie,
    close_other_fds,
    die_with_guard,
    die_with_parent,
    fork_under_guard,
    fork_under_init,
)
from harness.sandbox.layout import layout
from harness.sandbox.plan import SandboxPlan
from harness.sandbox.processes import tasks_of

_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


def enter(plan: SandboxPlan, *, keep_fds: Collection[int] = ()) -> None:
    """Apply `plan`; on return the process is the worker and confined.

    The process that called stays behind as the worker's guard: it holds no descriptor of the worker, ends as the
    worker ends (same exit status or signal), ends the worker when it is killed, and dies with its own parent. With
    `NAMESPACES` there's a further one, init of the PID namespace. All descriptors but 0, 1, 2 and `keep_fds` are
    closed; HOME, TMPDIR, XDG_CACHE_HOME, USER and LOGNAME are set; the working folder is HOME.

    Raises SandboxError (step, errno) when any step fails. It may then be raised in a process that the caller didn't
    fork itself, half-way in: report it and leave by `os._exit`, never run anything else.
    """
    if plan.level is IsolationLevel.UID and plan.uid is None:
        raise SandboxError("enter", detail="level uid needs a uid to change to")
    if plan.level is IsolationLevel.BUBBLEWRAP:
        raise SandboxError("enter", detail="bubblewrap starts a new program, see bwrap_argv")
    _require_single_thread()
    keep = {0, 1, 2, *keep_fds}
    close_other_fds(keep)
    try:
        os.setsid()
    except PermissionError as error:
        if os.getsid(0) != os.getpid():
            raise SandboxError("start a session", error.errno or 0) from error
    if plan.level is IsolationLevel.NONE and sys.platform != "linux":
        _limit(plan)
        _settle(plan)
        return
    die_with_parent()
    _join_cgroups(plan)
    _hand_over(plan)
    if plan.level is IsolationLevel.NAMESPACES:
        tie = _into_namespaces(plan)
        _limit(plan)
        _give_up_privileges(plan)
        die_with_guard(tie)
        fork_under_init(tie)
    else:
        tie = fork_under_guard(pid_namespace=False)
        _limit(plan)
        _give_up_privileges(plan)
        die_with_guard(tie)
    # The worker itself may be dumpable: CUDA and compilers look into their own /proc/self.
    linux.prctl(linux.PR_SET_DUMPABLE, 1, step="make the worker dumpable")
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # should the machine run out of memory, this one goes first
    _settle(plan)


def confine(plan: SandboxPlan) -> None:
    """The part of `enter` that needs no fork and no mount: limits, privileges, filter, environment."""
    _limit(plan)
    _give_up_privileges(plan)
    _settle(plan)


def _require_single_thread() -> None:
    with contextlib.suppress(FileNotFoundError):
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise SandboxError("enter", detail=f"the process has {threads} threads, it must have one")


def _into_namespaces(plan: SandboxPlan) -> Tie:
    """New namespaces, a guard outside them, the file tree. Goes on as the PID namespace's init."""
    privileged = linux.has_capability(linux.CAP_SYS_ADMIN)
    entries = layout(plan)
    helper = None if privileged else _MapHelper(plan)
    try:
        linux.unshare(
            _NAMESPACES | (0 if privileged else linux.CLONE_NEWUSER),
            step="unshare namespaces" if privileged else "unshare namespaces with a user namespace",
        )
        if helper:
            helper.map_ids()
    finally:
        if helper:
            helper.close()
    with contextlib.suppress(SandboxError):  # hides the control group's path; not every kernel has it
        linux.unshare(linux.CLONE_NEWCGROUP, step="unshare the cgroup namespace")
    tie = fork_under_guard(pid_namespace=True)
    linux.set_host_name("sandbox")
    with contextlib.suppress(SandboxError):  # what talks over 127.0.0.1 in there is the worker's own
        linux.bring_up_loopback()
    mounts.build(entries)
    return tie


class _MapHelper:
    """Writes the id maps of the user namespace that its maker is about to enter.

    A process may map one id by itself. One that runs as root but lacks CAP_SYS_ADMIN (a common container) maps two,
    its own to set things up and the plan's to give them up for; that can only be written from outside, so a helper
    is forked before.
    """

    def __init__(self, plan: SandboxPlan) -> None:
        self._uid, self._gid = os.getuid(), os.getgid()
        self._also = plan.uid if plan.uid is not None and plan.uid != self._uid else None
        self._helper = 0
        if self._also is not None:
            self._go_end, self._go = os.pipe()
            self._answer, self._answer_end = os.pipe()
            maker = os.getpid()
            self._helper = os.fork()
            if not self._helper:
                self._write_from_outside(maker)

    def map_ids(self) -> None:
        linux.prctl(linux.PR_SET_DUMPABLE, 1, step="own /proc/self for the id maps")
        try:
            if self._also is None:
                _write("/proc/self/setgroups", "deny")
                _write("/proc/self/uid_map", f"{self._uid} {self._uid} 1\n")
                _write("/proc/self/gid_map", f"{self._gid} {self._gid} 1\n")
            else:
                os.write(self._go, b"x")
                code = struct.unpack("=i", os.read(self._answer, 4))[0]
                if code:
                    raise OSError(code, os.strerror(code))
        except (OSError, struct.error) as error:
            raise SandboxError("map ids in the user namespace", getattr(error, "errno", 0) or 0) from error
        linux.prctl(linux.PR_SET_DUMPABLE, 0, step="make the guard non-dumpable")

    def _write_from_outside(self, maker: int) -> None:
        code = 0
        try:
            os.close(self._go)
            if os.read(self._go_end, 1):
                _write(f"/proc/{maker}/uid_map", f"{self._uid} {self._uid} 1\n{self._also} {self._also} 1\n")
                _write(f"/proc/{maker}/gid_map", f"{self._gid} {self._gid} 1\n{self._also} {self._also} 1\n")
        except OSError as error:
            code = error.errno or 1
        finally:
            os.write(self._answer_end, struct.pack("=i", code))
            os._exit(0)

    def close(self) -> None:
        if self._helper:
            for end in (self._go_end, self._go, self._answer, self._answer_end):
                os.close(end)
            os.waitpid(self._helper, 0)
            self._helper = 0


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _join_cgroups(plan: SandboxPlan) -> None:
    for folder in plan.cgroups:
        try:
            _write(f"{folder}/cgroup.procs", "0")
        except OSError as error:
            raise SandboxError(f"join the control group {folder}", error.errno or 0) from error


def _hand_over(plan: SandboxPlan) -> None:
    """Give the writable folders to the uid that the worker will have. Never through links, never a linked file."""
    if plan.uid is None:
        return
    try:
        for folder in plan.writable_folders:
            os.chown(folder, plan.uid, plan.uid)
            for _, names, files, at in os.fwalk(folder, follow_symlinks=False):
                for name in (*names, *files):
                    found = os.stat(name, dir_fd=at, follow_symlinks=False)
                    if found.st_uid != plan.uid and (found.st_nlink == 1 or name in names):
                        os.chown(name, plan.uid, plan.uid, dir_fd=at, follow_symlinks=False)
    except OSError as error:
        raise SandboxError(f"hand {error.filename} to uid {plan.uid}", error.errno or 0) from error


def _limit(plan: SandboxPlan) -> None:
    """Resource limits. Never RLIMIT_AS: CUDA reserves far more addresses than it uses."""
    processes = plan.processes
    if processes is not None and not _counted_alone(plan):
        processes += tasks_of(os.getuid())
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: plan.file_bytes, resource.RLIMIT_NPROC: processes}
    for limit, value in limits.items():
        if value is None:
            continue
        hard = resource.getrlimit(limit)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(limit, (bound, bound))
        except (OSError, ValueError) as error:
            raise SandboxError("set resource limits", getattr(error, "errno", 0) or 0, detail=str(error)) from error


def _counted_alone(plan: SandboxPlan) -> bool:
    """Whether RLIMIT_NPROC counts the worker's tasks alone, and not all that the same user runs on the machine."""
    if plan.uid is not None:
        return True
    # Since 5.14 the kernel counts per user and user namespace.
    release = [int(part) for part in os.uname().release.replace("-", ".").split(".")[:2] if part.isdigit()]
    return plan.level is IsolationLevel.NAMESPACES and os.getuid() != 0 and release >= [5, 14]


def _give_up_privileges(plan: SandboxPlan) -> None:
    """Other uid, no capabilities, no way to new ones, the system-call filter: in this order, each needs the former."""
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1, step="set no_new_privs")
    if plan.level is IsolationLevel.NONE:
        return
    with contextlib.suppress(SandboxError):  # without CAP_SETPCAP there's no privilege to keep from uid 0 either
        linux.prctl(linux.PR_SET_SECUREBITS, linux.SECBIT_NOROOT_LOCKED, step="take privilege from uid 0")
    if plan.uid is not None:
        try:
            os.setgroups(plan.groups)
            os.setresgid(plan.uid, plan.uid, plan.uid)
            linux.drop_bounding_set()
            os.setresuid(plan.uid, plan.uid, plan.uid)
        except OSError as error:
            raise SandboxError(f"become uid {plan.uid}", error.errno or 0) from error
    linux.drop_bounding_set()
    linux.drop_capabilities()
    seccomp.install()


def _settle(plan: SandboxPlan) -> None:
    os.umask(0o022)
    os.environ.update(plan.environment())
    tempfile.tempdir = None  # whatever was found before the fork
    try:
        os.chdir(plan.home)
    except OSError as error:
        raise SandboxError(f"go to the working folder {plan.home}", error.errno or 0) from error

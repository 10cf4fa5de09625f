"""The plan for a worker on this machine."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from harness.evaluation.record import IsolationLevel
from harness.sandbox import discover
from harness.sandbox.errors import SandboxError
from harness.sandbox.plan import MOUNT_LEVELS, Bind, SandboxPlan

PROCESSES = 256 + 16 * (os.cpu_count() or 1)
"""Threads count, and libraries start one per core each. Many more, all at work, would starve the supervisor."""
SCRATCH_BYTES = 4 << 30
DISK_BYTES = 4 << 30
"""For all that a worker writes to the host's disk; none of its files may be larger."""

_HIGH_UIDS = (0x6E000000, 0x6F000000)
"""Where a uid is picked at random: above what distributions, containers and user namespaces hand out."""


def default_plan(
    level: IsolationLevel,
    *,
    scratch: Path | None,
    cuda: bool,
    readable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
    binds: Iterable[Bind] = (),
    memory_bytes: int | None = None,
    processes: int | None = PROCESSES,
    scratch_bytes: int | None = SCRATCH_BYTES,
    file_bytes: int | None = DISK_BYTES,
    disk_bytes: int | None = DISK_BYTES,
    cgroups: Iterable[str] = (),
    uid: int | None = None,
) -> SandboxPlan:
    """A plan that shows a worker the interpreter, the system, compilers and (with `cuda`) the driver, and no more.

    `readable` and `writable` are further files and folders, shown at their own place, so that their paths hold at
    every level; `binds` are shown elsewhere, at mount levels only. `hidden` stays invisible: name the store and the
    boards' folders. As root the worker gets `uid`, by default one that nobody has; otherwise the user's own.

    Raises SandboxError when the level can't be had with these paths: a scratch folder or an interpreter that the
    other uid couldn't reach at level `UID`.
    """
    if file_bytes is not None and disk_bytes is not None:
        file_bytes = min(file_bytes, disk_bytes)
    nodes = discover.device_nodes(cuda=cuda)
    shown = [*discover.system_paths(cuda=cuda), *discover.interpreter_paths()]
    notes: list[str] = []
    if os.getuid() != 0 or level is IsolationLevel.NONE or level is IsolationLevel.BUBBLEWRAP:
        uid = None
    else:
        uid = free_uid() if uid is None else uid
        if uid is None:
            notes.append("uid 0 without capabilities: no other uid exists in this user namespace")
    own = [Bind(str(path.absolute()), str(path.absolute())) for path in readable]
    own += [Bind(str(path.absolute()), str(path.absolute()), writable=True) for path in writable]
    if uid is not None:
        uid = _check_reach(level, uid, scratch, own, notes)
    if level is IsolationLevel.UID and uid is None:
        raise SandboxError("plan level uid", detail="needs root and a second uid")
    return SandboxPlan(
        level=level,
        read_only=tuple(dict.fromkeys([*shown, *discover.package_paths()])),
        devices=tuple(nodes),
        binds=(*own, *binds),
        hidden=tuple(dict.fromkeys([*discover.private_paths(), *(str(path.absolute()) for path in hidden)])),
        scratch=None if scratch is None else str(scratch.absolute()),
        scratch_bytes=scratch_bytes,
        memory_bytes=memory_bytes,
        processes=processes,
        file_bytes=file_bytes,
        disk_bytes=disk_bytes,
        uid=uid,
        groups=discover.device_groups(nodes) if uid is not None else (),
        cgroups=tuple(cgroups),
        notes=tuple(notes),
    )


def _check_reach(
    level: IsolationLevel, uid: int, scratch: Path | None, binds: list[Bind], notes: list[str]
) -> int | None:
    """The uid, or None where only root can read the interpreter and the file tree alone must do."""
    prefixes = discover.interpreter_paths()
    if level in MOUNT_LEVELS:
        # The tree inside is made anew, so only the shown folders' own permissions count, not those above them.
        closed = [path for path in prefixes if not _open_to_others(path)]
        if closed:
            notes.append(
                f"uid 0 without capabilities: no other uid can read {closed[0]}; "
                "its processes are bounded by a control group alone"
            )
            return None
        return uid
    closed = [path for path in prefixes if not _reachable(path)]
    if closed:
        raise SandboxError("plan level uid", detail=f"only root can reach the interpreter's {closed[0]}")
    for path in [*([str(scratch)] if scratch else []), *(bind.source for bind in binds)]:
        if not _reachable(str(Path(path).parent)):
            raise SandboxError("plan level uid", detail=f"only root can reach {path}")
    return uid


def _open_to_others(path: str) -> bool:
    wanted = 0o005 if os.path.isdir(path) else 0o004
    return os.stat(path).st_mode & wanted == wanted


def _reachable(path: str) -> bool:
    real = Path(os.path.realpath(path))
    return _open_to_others(str(real)) and all(os.stat(parent).st_mode & 0o001 for parent in real.parents)


def free_uid() -> int | None:
    """A uid without account, files or processes, as high as this user namespace has; None if it has but one."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return None
    ends = [(int(start), int(start) + int(length)) for start, _, length in map(str.split, lines)]
    low, high = _HIGH_UIDS
    if any(start <= low and high <= end for start, end in ends):
        return low + secrets.randbelow(high - low)
    start, end = max(ends, key=lambda each: each[1] - each[0])
    # 65534 is nobody, whom other services share.
    candidates = range(max(start + 1, end - 5000), min(end, 65534) if end <= 65536 else end)
    return secrets.choice(candidates) if candidates else None

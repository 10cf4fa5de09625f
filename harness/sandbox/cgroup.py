"""A control group of a worker's own, where this machine lets us make one: the kernel then bounds memory and tasks."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.errors import SandboxError

_WANTED = ("memory", "pids")


@dataclass(frozen=True)
class Cgroup:
    """`folders` go into a plan's `cgroups`; one under version 2, one per controller under version 1."""

    folders: tuple[str, ...]
    version: int

    @classmethod
    def create(cls, name: str, *, memory_bytes: int | None, processes: int | None) -> Cgroup:
        """Make it below (or beside) our own. `processes` counts threads, the guard and the init.

        Raises SandboxError where control groups can't be written or lack the memory controller.
        """
        homes = _homes()
        if "memory" in homes:
            group = _create_v1(homes, name)
        elif "" in homes:
            group = _create_v2(homes[""], name)
        else:
            raise SandboxError("make a control group", detail="none with a memory controller is mounted")
        try:
            group._bound(memory_bytes, processes)
        except OSError as error:
            group.remove()
            raise SandboxError("bound a control group", error.errno or 0) from error
        return group

    def _bound(self, memory_bytes: int | None, processes: int | None) -> None:
        memory = Path(self.folders[0])
        if memory_bytes is not None and self.version == 2:
            (memory / "memory.max").write_text(str(memory_bytes))
            for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with contextlib.suppress(OSError):  # not on every kernel
                    (memory / name).write_text(value)
        elif memory_bytes is not None:
            (memory / "memory.limit_in_bytes").write_text(str(memory_bytes))
            with contextlib.suppress(OSError):  # only where swap is accounted
                (memory / "memory.memsw.limit_in_bytes").write_text(str(memory_bytes))
        if processes is not None and (Path(self.folders[-1]) / "pids.max").exists():
            (Path(self.folders[-1]) / "pids.max").write_text(str(processes))

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group because of the bound."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            lines = (Path(self.folders[0]) / name).read_text().splitlines()
        except OSError:
            return False
        return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in lines)

    def kill(self, timeout_s: float = 5.0) -> int:
        """SIGKILL every member until none lives; returns how many are left."""
        deadline = time.monotonic() + timeout_s
        while members := self._members():
            if self.version == 2:
                with contextlib.suppress(OSError):  # since 5.14: all at once, forks included
                    (Path(self.folders[0]) / "cgroup.kill").write_text("1")
            for pid in members:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return len(members)
            time.sleep(0.005)
        return 0

    def _members(self) -> list[int]:
        members: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                members.update(int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split())
        return sorted(members)

    def remove(self) -> None:
        """Take the empty group away. A group that still has members stays (see `kill`)."""
        for folder in self.folders:
            # A killed process leaves its group only when it is through with dying.
            for _ in range(50):
                try:
                    os.rmdir(folder)
                except OSError as error:
                    if error.errno == errno.EBUSY:
                        time.sleep(0.01)
                        continue
                break


def _create_v1(homes: dict[str, str], name: str) -> Cgroup:
    made: list[str] = []
    for controller in _WANTED:
        if controller not in homes:
            continue
        folder = os.path.join(homes[controller], name)
        try:
            os.mkdir(folder)
        except OSError as error:
            if controller == "memory":
                raise SandboxError("make a control group", error.errno or 0, detail=homes[controller]) from error
            continue
        made.append(folder)
    return Cgroup(tuple(made), version=1)


def _create_v2(home: str, name: str) -> Cgroup:
    """Below our own group only where that has no members (the root), since a group with members hands on nothing."""
    problem: OSError | None = None
    for parent in (home, os.path.dirname(home)):
        control = Path(parent) / "cgroup.subtree_control"
        try:
            if not set(_WANTED) <= set(control.read_text().split()):
                control.write_text(" ".join(f"+{controller}" for controller in _WANTED))
            folder = os.path.join(parent, name)
            os.mkdir(folder)
        except OSError as error:
            problem = problem or error
            continue
        return Cgroup((folder,), version=2)
    assert problem is not None
    raise SandboxError("make a control group", problem.errno or 0, detail=home) from problem


def _homes() -> dict[str, str]:
    """Our own group's folder by controller (version 1), or under the empty name (version 2)."""
    try:
        own = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return {}
    paths = {}
    for line in own:
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    homes = {}
    for line in mounts:
        fields, _, tail = line.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = tail.split()[:3]
        if kind == "cgroup2" and "" in paths:
            homes[""] = _under(point, root, paths[""])
        elif kind == "cgroup":
            for controller in set(options.split(",")) & set(_WANTED) & set(paths):
                homes[controller] = _under(point, root, paths[controller])
    return homes


def _under(point: str, root: str, path: str) -> str:
    """Folder of a group under a mount that shows the hierarchy from `root` on."""
    inside = path[len(root.rstrip("/")) :] if path.startswith(root.rstrip("/") + "/") or path == root else ""
    return os.path.normpath(point + "/" + inside)

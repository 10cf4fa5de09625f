"""Processes seen through /proc: who descends from whom, how much memory they hold, and how to end them all."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from harness.sandbox import linux

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    """One letter as in /proc/PID/stat; Z and X are dead."""
    started: int
    """Clock ticks since boot; with the pid it names a process for good."""

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"


def read_process(pid: int) -> Process | None:
    """None when there's no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except OSError:
        return None
    # The command name, in parentheses, may itself hold spaces and parentheses.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), fields[0].decode(), int(fields[19]))


def all_processes() -> list[Process]:
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def descendants(pid: int, *, uid: int | None = None) -> list[Process]:
    """Every process below `pid`, nearest first, without itself; with `uid`, also everything that this user runs."""
    everything = all_processes()
    children = defaultdict(list)
    for process in everything:
        children[process.parent].append(process)
    found: dict[int, Process] = {}
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(0), ()):
            if child.pid not in found:
                found[child.pid] = child
                queue.append(child.pid)
    if uid is not None:
        for process in everything:
            if process.pid not in found and process.pid != pid and _owner(process.pid) == uid:
                found[process.pid] = process
    return list(found.values())


def _owner(pid: int) -> int | None:
    """Real uid; not the folder's owner, which is root for a process that isn't dumpable."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return None


def tasks_of(uid: int) -> int:
    """Threads that a user runs now, as far as /proc shows."""
    count = 0
    for process in all_processes():
        if _owner(process.pid) == uid:
            with contextlib.suppress(OSError):
                count += len(os.listdir(f"/proc/{process.pid}/task"))
    return count


def kill_descendants(pid: int, *, uid: int | None = None, timeout_s: float = 5.0) -> int:
    """SIGKILL everything below `pid` (but not itself) until nothing lives. Returns how many still live at the end.

    All are stopped first: a stopped process can't fork, so a fork bomb doesn't outrun the killing.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.001
    while True:
        stopped: set[tuple[int, int]] = set()
        for _ in range(1000):
            living = [process for process in descendants(pid, uid=uid) if process.alive]
            fresh = [process for process in living if (process.pid, process.started) not in stopped]
            if not fresh:
                break
            _signal(fresh, signal.SIGSTOP)
            stopped.update((process.pid, process.started) for process in fresh)
        if not living:
            return 0
        # Farthest last in the list: the first are PID namespace inits, whose death ends the rest at once.
        _signal(living, signal.SIGKILL)
        if time.monotonic() > deadline:
            return len([process for process in descendants(pid, uid=uid) if process.alive])
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)


def _signal(targets: Iterable[Process], number: signal.Signals) -> None:
    for process in targets:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def kill_tree(pid: int, *, uid: int | None = None, timeout_s: float = 5.0) -> int:
    """End a sandboxed worker: `pid` (what the fork server forked) and all that came of it, in whatever session.

    With a PID namespace its init dies and the kernel ends the rest. Without, orphans hang on the guard that `enter`
    left at `pid`, so they are found; `uid` (the plan's, when the worker had one of its own) finds what the guard
    lost. Returns the number of processes still alive after `timeout_s`: 0 unless one hangs in the kernel. Dead ones
    wait for the caller (or whoever is their parent) to collect them.
    """
    this = read_process(pid)
    if this is None:
        return kill_descendants(pid, uid=uid, timeout_s=timeout_s) if uid is not None else 0
    _signal([this], signal.SIGSTOP)  # it shall not act on the deaths below it
    left = kill_descendants(pid, uid=uid, timeout_s=timeout_s)
    deadline = time.monotonic() + timeout_s
    while True:
        now = read_process(pid)
        if now is None or now.started != this.started or not now.alive:
            break
        if time.monotonic() > deadline:
            return left + 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
    return left


def memory_bytes(pid: int, *, exact: bool) -> int:
    """Memory held by `pid` and everything below it.

    Not exact: the sum of resident sizes, in which shared pages count once per process (an upper bound, cheap), or what
    the whole machine uses where that is less. Exact: proportional sizes, where shared pages are divided; where those
    may not be read, private plus shared memory.
    """
    held = sum(_held(each, exact) for each in [pid, *pids_below(pid)])
    # A thousand forks of one process look large by their sum, and take a minute to read exactly.
    return held if exact else min(held, _machine_bytes())


def _machine_bytes() -> int:
    """Memory in use on the whole machine, files in its cache left out."""
    with open("/proc/meminfo") as file:
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in file)}
    return sizes["MemTotal"] - sizes["MemAvailable"]


def pids_below(pid: int) -> list[int]:
    """Pids below `pid`."""
    found, queue = [], [pid]
    while queue:
        fresh = _children(queue.pop())
        found += fresh
        queue += fresh
    return found


def _children(pid: int) -> list[int]:
    """By the kernel's own list where it keeps one: cheaper than all of /proc."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return [process.pid for process in all_processes() if process.parent == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as children:
                found += [int(child) for child in children.read().split()]
    return found


def _held(pid: int, exact: bool) -> int:
    if not exact:
        try:
            with open(f"/proc/{pid}/statm") as file:
                return int(file.read().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0
    for name, wanted in (("smaps_rollup", ("Pss:",)), ("status", ("RssAnon:", "RssShmem:"))):
        try:
            with open(f"/proc/{pid}/{name}") as file:
                return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(wanted))
        except OSError:
            continue
    return 0


def become_subreaper() -> None:
    """Orphans below the calling process become its children instead of the machine's init's."""
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1, step="become a subreaper")


def harden_supervisor() -> None:
    """Make the calling process non-dumpable: no ptrace, no /proc/PID/mem by its own user, no core file."""
    import resource
    import sys

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_DUMPABLE, 0, step="make the supervisor non-dumpable")

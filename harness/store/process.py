"""Whether the process that was writing an evaluation still lives.

A process is known by its host, its id and when it started, since ids are used again. Linux gives all three in `/proc`;
elsewhere psutil does.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessIdentity:
    """`start` is opaque: equal for two readings of one process, different for any two processes of one host."""

    host: str
    pid: int
    start: str


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    return ProcessIdentity(platform.node(), pid, _start(pid) or "")


def is_gone(process: ProcessIdentity) -> bool:
    """True when the process surely ended. One of another host, or of another container's process table, is not known
    to have ended."""
    if process.host != platform.node():
        return False
    boot, namespace, _ = process.start.split("/") if process.start.count("/") == 2 else ("", "", "")
    if boot and boot != _boot():
        return True
    if namespace and namespace != _namespace():
        return False
    return _start(process.pid) != process.start


def _start(pid: int) -> str | None:
    """Boot, process table and start tick of a live process; None for one that is gone or waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_by_psutil(pid)
    except OSError:  # ended while we were reading
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_boot()}/{_namespace()}/{start_ticks}"


def _start_by_psutil(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.NoSuchProcess:
        return None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""

"""From a plan to the list of what has to be mounted where: pure reading of the host's tree, nothing is changed.

`mounts.build` carries the list out by system calls, `bubblewrap` turns the same list into arguments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from harness.sandbox.errors import SandboxError
from harness.sandbox.plan import WORKER_NAME, SandboxPlan

SHARED_MEMORY_BYTES = 2 << 30
"""Size of /dev/shm (and of /tmp when there's neither a scratch folder nor a size) unless the plan says less."""

_MOST_LINKS = 40  # as the kernel's own limit on one path


class Kind(StrEnum):
    BIND = "bind"  # a host file or folder, read-only or writable
    DEVICE = "device"  # a host device node
    TMPFS = "tmpfs"  # memory, writable by all, of limited size
    MASK = "mask"  # an empty read-only folder or file over something that must stay unseen
    SYMLINK = "symlink"
    FILE = "file"  # a file made up by us
    PROC = "proc"  # of the sandbox's own PID namespace


@dataclass(frozen=True)
class Entry:
    """One thing at `target`. `source` is a host path, a link's text or a file's text, by kind."""

    kind: Kind
    target: str
    source: str = ""
    writable: bool = False
    size_bytes: int = 0


def layout(plan: SandboxPlan) -> list[Entry]:
    """Everything that the worker's tree consists of, parents before what lies on top of them.

    Raises SandboxError when a path of `binds` or `devices` doesn't exist. Missing `read_only` paths are left out.
    """
    entries: dict[str, Entry] = {}

    def put(entry: Entry) -> None:
        entries[entry.target] = entry

    for path in plan.read_only:
        links, final = follow(path)
        for entry in links:
            put(entry)
        if os.path.lexists(final):
            put(Entry(Kind.BIND, final, final))
    put(Entry(Kind.PROC, "/proc"))
    size = plan.scratch_bytes or SHARED_MEMORY_BYTES
    if plan.scratch_bytes is None and plan.scratch is not None:
        put(Entry(Kind.BIND, "/tmp", _existing(plan.scratch, "scratch folder"), writable=True))
    else:
        put(Entry(Kind.TMPFS, "/tmp", size_bytes=size))
    put(Entry(Kind.TMPFS, "/dev/shm", size_bytes=size))
    for name, text in _made_up_files(plan).items():
        put(Entry(Kind.FILE, name, text))
    for node in plan.devices:
        put(Entry(Kind.DEVICE, node, _existing(node, "device")))
    for name, text in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        put(Entry(Kind.SYMLINK, f"/dev/{name}", text))
    for bind in plan.binds:
        put(Entry(Kind.BIND, bind.target, _existing(bind.source, "bind"), writable=bind.writable))
    for entry in [entry for entry in entries.values() if entry.kind is Kind.BIND]:
        for place, source in _shown_though_hidden(entry, plan):
            entries.setdefault(place, Entry(Kind.MASK, place, source))
    return _without_needless(sorted(entries.values(), key=lambda entry: (entry.target.count("/"), entry.target)))


def follow(path: str) -> tuple[list[Entry], str]:
    """The symbolic links on the way along an absolute path, and the path that they lead to."""
    links: dict[str, Entry] = {}
    followed = 0
    here = "/"
    left = [part for part in path.split("/") if part]
    while left:
        part = left.pop(0)
        if part == ".":
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        candidate = os.path.join(here, part)
        if os.path.islink(candidate):
            text = os.readlink(candidate)
            followed += 1
            if followed > _MOST_LINKS:
                raise SandboxError("follow a path", detail=f"too many symbolic links: {path}")
            links[candidate] = Entry(Kind.SYMLINK, candidate, text)
            here = "/" if text.startswith("/") else here
            left = [step for step in text.split("/") if step] + left
        else:
            here = candidate
    return list(links.values()), here


def covering(target: str, entries: Iterable[Entry]) -> Entry | None:
    """The nearest entry with a folder of its own above `target`; None is the sandbox's root."""
    above = {str(parent) for parent in PurePosixPath(target).parents}
    near = [entry for entry in entries if entry.target in above and entry.kind not in (Kind.SYMLINK, Kind.FILE)]
    return max(near, key=lambda entry: len(entry.target), default=None)


def _without_needless(entries: list[Entry]) -> list[Entry]:
    """Leave out what a read-only folder above shows anyway: links, masks of nothing, binds of the same files."""
    kept: list[Entry] = []
    for entry in entries:
        above = covering(entry.target, kept)
        plain = above is not None and above.kind is Kind.BIND and above.source == above.target and not above.writable
        same = entry.kind is Kind.BIND and entry.source == entry.target and not entry.writable
        if plain and (same or entry.kind in (Kind.SYMLINK, Kind.FILE)):
            continue
        if entry.kind is Kind.MASK and (above is None or above.kind is not Kind.BIND):
            continue
        kept.append(entry)
    return kept


def _shown_though_hidden(bind: Entry, plan: SandboxPlan) -> list[tuple[str, str]]:
    """Where hidden paths would show up through a bind, with their host paths."""
    found = []
    for path in plan.hidden:
        try:
            _, final = follow(path)
        except SandboxError:  # links in a circle show nothing
            continue
        if os.path.lexists(final) and final.startswith(bind.source.rstrip("/") + "/"):
            found.append((bind.target.rstrip("/") + final[len(bind.source.rstrip("/")) :], final))
    return found


def _existing(path: str, what: str) -> str:
    _, final = follow(path)
    if not os.path.exists(final):
        raise SandboxError(f"show the {what} {path}", detail="it doesn't exist")
    return final


def _made_up_files(plan: SandboxPlan) -> dict[str, str]:
    uid = os.getuid() if plan.uid is None else plan.uid
    gid = os.getgid() if plan.uid is None else plan.uid
    return {
        "/etc/passwd": f"{WORKER_NAME}:x:{uid}:{gid}:{WORKER_NAME}:/tmp:/bin/sh\n",
        "/etc/group": f"{WORKER_NAME}:x:{gid}:\n",
        "/etc/hosts": "127.0.0.1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }

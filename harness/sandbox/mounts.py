"""Carry a layout out: build a new root from the allow-list and make it the only tree there is."""

from __future__ import annotations

import errno
import os
import stat

from harness.sandbox import linux
from harness.sandbox.errors import SandboxError
from harness.sandbox.layout import Entry, Kind, covering

_STAGING = ("/tmp", "/run", "/mnt", "/var", "/usr")
"""Any folder will do to stand on while the new root is built; the first that exists is covered, in this mount
namespace alone."""

_OLD, _NEW = "/old", "/new"
_PLAIN = linux.MS_NOSUID | linux.MS_NODEV
_MOST_FILES = 200_000

_PROC_READ_ONLY = ("sys", "irq", "bus", "fs", "sysrq-trigger")
_PROC_EMPTY = ("kcore", "keys", "key-users", "timer_list", "sched_debug", "kallsyms", "kmsg", "latency_stats")


def build(entries: list[Entry]) -> None:
    """Replace the file tree of this process by `entries`. Needs its own mount and PID namespace and CAP_SYS_ADMIN.

    Raises SandboxError naming the entry that failed; the process must not go on then.
    """
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE, step="make mounts private")
    base = next(folder for folder in _STAGING if os.path.isdir(folder))
    linux.mount("tmpfs", base, "tmpfs", _PLAIN, "mode=755,size=1m", step="mount a staging folder")
    for name in (_OLD, _NEW):
        os.mkdir(base + name, 0o755)
    linux.mount("tmpfs", base + _NEW, "tmpfs", _PLAIN, "mode=755,size=4m", step="mount the new root")
    linux.pivot_root(base, base + _OLD, step="pivot to the staging folder")
    os.chdir("/")
    for entry in entries:
        try:
            _place(entry, entries)
        except OSError as error:
            raise SandboxError(f"place {entry.kind} {entry.target}", error.errno or 0) from error
    for entry in entries:
        if entry.kind is Kind.MASK:
            linux.restrict_mount(_NEW + entry.target, read_only=True, step=f"hide {entry.target}")
    _leave_old_root()


def _leave_old_root() -> None:
    linux.umount(_OLD, linux.MNT_DETACH, step="let go of the host's root")
    os.chdir(_NEW)
    # New root onto the old one, which then lies on top of it and is taken away: no folder is needed to put it in.
    linux.pivot_root(".", ".", step="pivot to the new root")
    linux.umount(".", linux.MNT_DETACH, step="let go of the staging folder")
    os.chdir("/")
    # Only the root's own mount: what lies on it has flags of its own.
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _PLAIN
    linux.mount("none", "/", None, flags, step="make the new root read-only")


def _place(entry: Entry, entries: list[Entry]) -> None:
    where, step = _NEW + entry.target, f"place {entry.kind} {entry.target}"
    if entry.kind is Kind.SYMLINK:
        _make_parents(entry, entries)
        os.symlink(entry.source, where)
        return
    if entry.kind is Kind.FILE:
        _make_parents(entry, entries)
        with open(where, "x") as made:
            made.write(entry.source)
        os.chmod(where, 0o644)
        return
    if entry.kind is Kind.PROC:
        _make_point(entry, entries, folder=True)
        linux.mount("proc", where, "proc", _PLAIN | linux.MS_NOEXEC, step="mount /proc of the PID namespace")
        _narrow_proc(where)
        return
    if entry.kind is Kind.TMPFS:
        _make_point(entry, entries, folder=True)
        options = f"mode=1777,size={entry.size_bytes},nr_inodes={_MOST_FILES}"
        linux.mount("tmpfs", where, "tmpfs", _PLAIN, options, step=step)
        return
    source = _OLD + entry.source
    folder = stat.S_ISDIR(os.stat(source).st_mode)
    if entry.kind is Kind.MASK and folder:
        linux.mount("tmpfs", where, "tmpfs", _PLAIN, "mode=755,size=64k", step=step)
        return
    if entry.kind is Kind.MASK:
        linux.mount(_OLD + "/dev/null", where, None, linux.MS_BIND, step=step)
        return
    _make_point(entry, entries, folder=folder)
    linux.mount(source, where, None, linux.MS_BIND | linux.MS_REC, step=step)
    is_device = entry.kind is Kind.DEVICE
    linux.restrict_mount(
        where, read_only=not entry.writable and not is_device, devices=is_device, execute=not is_device, step=step
    )


def _narrow_proc(proc: str) -> None:
    """Nobody needs to write the kernel's settings, nor to see its memory, keys and timers."""
    for name in _PROC_READ_ONLY:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            linux.mount(path, path, None, linux.MS_BIND | linux.MS_REC, step=f"narrow {path}")
            linux.restrict_mount(path, read_only=True, execute=False, step=f"narrow {path}")
    for name in _PROC_EMPTY:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            linux.mount(_OLD + "/dev/null", path, None, linux.MS_BIND, step=f"empty {path}")


def _make_parents(entry: Entry, entries: list[Entry]) -> None:
    _walk(os.path.dirname(entry.target), covering(entry.target, entries))


def _make_point(entry: Entry, entries: list[Entry], *, folder: bool) -> None:
    """The file or folder to mount on: made where the mount below is ours to write in, else it must be there."""
    above = covering(entry.target, entries)
    if folder:
        _walk(entry.target, above)
        return
    _walk(os.path.dirname(entry.target), above)
    try:
        descriptor = os.open(_NEW + entry.target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        os.close(descriptor)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno == errno.EROFS:
            raise SandboxError(f"place {entry.target}", detail="its folder is read-only and lacks it") from error
        raise


def _walk(folder: str, above: Entry | None) -> None:
    """Make the folders from the mount `above` down to `folder`, without following a symbolic link that a former
    worker may have left there."""
    start = above.target if above else ""
    here = os.open(_NEW + start, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in [part for part in folder[len(start) :].split("/") if part]:
        try:
            os.mkdir(part, 0o755, dir_fd=here)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
        below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

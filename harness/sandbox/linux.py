"""The few Linux calls that Python's standard library lacks, by ctypes. Each raises SandboxError with step and errno."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import socket
import struct
import sys

from harness.sandbox.errors import SandboxError

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEWTIME = 0x00000080

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

# NOROOT, NO_SETUID_FIXUP's lock is left open: setresuid must still clear capabilities.
SECBIT_NOROOT_LOCKED = 0x3

CAP_SYS_ADMIN = 21

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1

_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_ATTR_NOSUID = 0x2
_MOUNT_ATTR_NODEV = 0x4
_MOUNT_ATTR_NOEXEC = 0x8
_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100

_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317, "mount_setattr": 442, "close_range": 436},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277, "mount_setattr": 442, "close_range": 436},
}


def architecture() -> str:
    """`x86_64` or `aarch64`; anything else is refused, since system call numbers differ."""
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise SandboxError("sandbox", detail=f"system call numbers of {machine or 'this machine'} are not known")
    return machine


_libc_handle: ctypes.CDLL | None = None


def libc() -> ctypes.CDLL:
    global _libc_handle
    if _libc_handle is None:
        if sys.platform != "linux":
            raise SandboxError("sandbox", detail=f"needs Linux, this is {sys.platform}")
        _libc_handle = ctypes.CDLL(None, use_errno=True)
    return _libc_handle


def _checked(result: int, step: str) -> int:
    if result < 0:
        raise SandboxError(step, ctypes.get_errno())
    return result


def syscall(name: str, *arguments: object, step: str = "") -> int:
    """A raw system call by name; integer arguments go as C longs."""
    number = _NUMBERS[architecture()][name]
    raw = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(libc().syscall(ctypes.c_long(number), *raw), step or name)


def prctl(option: int, value: int = 0, third: int = 0, *, step: str) -> int:
    as_long = ctypes.c_ulong
    return _checked(libc().prctl(option, as_long(value), as_long(third), as_long(0), as_long(0)), step)


def unshare(flags: int, *, step: str) -> None:
    _checked(libc().unshare(flags), step)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "", *, step: str) -> None:
    _checked(
        libc().mount(
            os.fsencode(source),
            os.fsencode(target),
            os.fsencode(kind) if kind else None,
            ctypes.c_ulong(flags),
            os.fsencode(options) if options else None,
        ),
        step,
    )


def umount(target: str, flags: int, *, step: str) -> None:
    _checked(libc().umount2(os.fsencode(target), flags), step)


def pivot_root(new_root: str, put_old: str, *, step: str) -> None:
    syscall("pivot_root", os.fsencode(new_root), os.fsencode(put_old), step=step)


def set_host_name(name: str) -> None:
    raw = name.encode()
    _checked(libc().sethostname(raw, ctypes.c_size_t(len(raw))), "set the host name")


def bring_up_loopback() -> None:
    """Of a network namespace that was just made, where only 127.0.0.1 inside it can be reached then."""
    request = struct.pack("16sh14x", b"lo", _IFF_UP)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)
    except OSError as error:
        raise SandboxError("bring up the loopback", error.errno or 0) from error


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def restrict_mount(target: str, *, read_only: bool, devices: bool = False, execute: bool = True, step: str) -> None:
    """Make a mount and everything mounted below it nosuid, and read-only, nodev or noexec as asked."""
    wanted = _MOUNT_ATTR_NOSUID
    wanted |= _MOUNT_ATTR_RDONLY if read_only else 0
    wanted |= 0 if devices else _MOUNT_ATTR_NODEV
    wanted |= 0 if execute else _MOUNT_ATTR_NOEXEC
    attributes = _MountAttributes(wanted, 0, 0, 0)
    try:
        syscall(
            "mount_setattr",
            _AT_FDCWD,
            os.fsencode(target),
            _AT_RECURSIVE,
            ctypes.byref(attributes),
            ctypes.sizeof(attributes),
            step=step,
        )
    except SandboxError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):
            raise
        _remount_one_by_one(target, wanted, step)


_OPTION_FLAGS = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": MS_NOATIME,
    "nodiratime": MS_NODIRATIME,
    "relatime": MS_RELATIME,
}


def _remount_one_by_one(target: str, flags: int, step: str) -> None:
    """For kernels before 5.12: mount attributes equal the MS_ flags of the same meaning, and are set mount by mount.

    Flags that a mount already has must be repeated: in a user namespace they are locked.
    """
    for point, present in _mounts_below(target):
        mount("none", point, None, MS_REMOUNT | MS_BIND | flags | present, step=f"{step} ({point})")


def _mounts_below(target: str) -> list[tuple[str, int]]:
    found = []
    # While a new root is being built the host's /proc is at /old/proc.
    tables = [path for path in ("/proc/self/mountinfo", "/old/proc/self/mountinfo") if os.path.exists(path)]
    with open(tables[0]) as table:
        for line in table:
            fields = line.split()
            # Spaces and the like are written in octal. No codec: none can be loaded while the tree is being built.
            point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
            if point == target or point.startswith(target.rstrip("/") + "/"):
                found.append((point, sum(_OPTION_FLAGS.get(option, 0) for option in fields[5].split(","))))
    return found


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_bounding_set() -> None:
    """Empty the capability bounding set for good.

    Only one who has CAP_SETPCAP can; without it there's nothing to lose by leaving it, since no_new_privs stops
    execve from granting any of it.
    """
    for number in range(64):
        if libc().prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), *[ctypes.c_ulong(0)] * 3) < 0:
            code = ctypes.get_errno()
            if code in (errno.EINVAL, errno.EPERM):
                break
            raise SandboxError("drop the capability bounding set", code)


def drop_capabilities() -> None:
    """Empty the ambient, inheritable, permitted and effective capability sets of the calling process."""
    libc().prctl(PR_CAP_AMBIENT, ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), *[ctypes.c_ulong(0)] * 3)
    header = _CapabilityHeader(0x20080522, 0)
    empty = (ctypes.c_uint32 * 6)()
    syscall("capset", ctypes.byref(header), ctypes.byref(empty), step="drop capabilities")
    if any(_capabilities().values()):
        raise SandboxError("drop capabilities", detail="some are still there")


def _capabilities() -> dict[str, int]:
    """Effective, permitted, inheritable and ambient sets of this process; /proc must be readable, else empty."""
    sets = {}
    try:
        with open("/proc/self/status") as status:
            for line in status:
                name, _, value = line.partition(":")
                if name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                    sets[name] = int(value, 16)
    except OSError:
        pass
    return sets


def has_capability(number: int) -> bool:
    return bool(_capabilities().get("CapEff", 0) >> number & 1)

"""A small system-call filter: what a kernel benchmark never needs and an attacker would like, denied by EPERM.

Compilers (fork and exec), CUDA, Triton and torch.compile run under it. Numbers are those of the kernel's own tables
(`asm/unistd_64.h` for x86-64, `asm-generic/unistd.h` for aarch64).
"""

from __future__ import annotations

import ctypes
import errno
import struct

from harness.sandbox import linux
from harness.sandbox.errors import SandboxError

_MISSING = -1

DENIED: dict[str, tuple[int, int]] = {
    # name: (x86-64, aarch64)
    # Other processes' memory and state.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # The file tree.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    # Namespaces other than by clone and unshare, whose flags are looked at below.
    "setns": (308, 268),
    # Keys, kernel code, kernel observation.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # The machine.
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "iopl": (172, _MISSING),
    "ioperm": (173, _MISSING),
    "vhangup": (153, 58),
}

_COLUMN = {"x86_64": 0, "aarch64": 1}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE3 = 435
_CLONE = (56, 220)
_UNSHARE = (272, 97)
_SOCKET = (41, 198)
_IOCTL = (16, 29)
_X32_BIT = 0x40000000

_NEW_NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
)
# AF_VSOCK above all: it reaches a virtual machine's host and belongs to no network namespace.
_SOCKET_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
_TERMINAL_INJECTION = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_AT_NUMBER, _AT_ARCH, _AT_FIRST, _AT_SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, little endian


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _deny(code: int = errno.EPERM) -> bytes:
    return _op(_RETURN, _ERRNO | code)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """`body` (which always returns) for one system call; otherwise fall through with the number still loaded."""
    whole = b"".join(body)
    return [_op(_IF_EQUAL, number, 0, len(whole) // 8), whole]


def program(machine: str) -> bytes:
    """The filter as an array of struct sock_filter, for `x86_64` or `aarch64`."""
    column = _COLUMN[machine]
    allow = _op(_RETURN, _ALLOW)
    ops = [
        _op(_LOAD, _AT_ARCH),
        _op(_IF_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _deny(errno.ENOSYS),  # another architecture's calls (32 bit) would have other numbers
        _op(_LOAD, _AT_NUMBER),
    ]
    if machine == "x86_64":
        ops += [_op(_IF_AT_LEAST, _X32_BIT, 0, 1), _deny(errno.ENOSYS)]
    # clone3 hides its flags in memory; the C library falls back to clone when told that there is none.
    ops += _when(_CLONE3, [_deny(errno.ENOSYS)])
    for call, flags in ((_CLONE, _NEW_NAMESPACES), (_UNSHARE, _NEW_NAMESPACES | linux.CLONE_NEWTIME)):
        body = [_op(_LOAD, _AT_FIRST), _op(_IF_ANY_BIT, flags, 0, 1), _deny(), allow]
        ops += _when(call[column], body)
    families = [_op(_IF_EQUAL, family, 0, 1) + allow for family in _SOCKET_FAMILIES.values()]
    body = [_op(_LOAD, _AT_FIRST), *families, _deny(errno.EAFNOSUPPORT)]
    ops += _when(_SOCKET[column], body)
    requests = [_op(_IF_EQUAL, request, 0, 1) + _deny() for request in _TERMINAL_INJECTION.values()]
    ops += _when(_IOCTL[column], [_op(_LOAD, _AT_SECOND), *requests, allow])
    for numbers in DENIED.values():
        if numbers[column] != _MISSING:
            ops += _when(numbers[column], [_deny()])
    ops.append(allow)
    return b"".join(ops)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install() -> None:
    """Put the filter on the calling thread and all it starts. Needs no_new_privs.

    Speculation mitigations stay as they are (SPEC_ALLOW): on kernels before 5.16 a filter would otherwise slow down
    what is being measured.
    """
    code = program(linux.architecture())
    buffer = ctypes.create_string_buffer(code, len(code))
    described = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    set_mode_filter, spec_allow = 1, 4
    try:
        linux.syscall(
            "seccomp", set_mode_filter, spec_allow, ctypes.byref(described), step="install the seccomp filter"
        )
    except SandboxError as error:
        if error.errno != errno.EINVAL:  # EINVAL: a kernel before 4.17 without the flag
            raise
        linux.syscall("seccomp", set_mode_filter, 0, ctypes.byref(described), step="install the seccomp filter")

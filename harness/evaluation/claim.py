"""One evaluation at a time on a device: a lock that dies with its holder, and a choice where there are several devices.

Two kernels that share a device slow each other, and neither figure is worth anything. The claim is made before CUDA is
touched, since it decides which device this process sees.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.2
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Claim:
    """A device held by this process until it ends or `release` is called. `waited_s` is how long it took to get it."""

    device: str
    waited_s: float
    fd: int

    def release(self) -> None:
        os.close(self.fd)


def devices() -> list[str]:
    """The CUDA devices that this process may use, by UUID, in CUDA's order; empty where there is no driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        found = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except Exception:  # no library, no driver, no permission: then there is nothing to share
        return []
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return found
    chosen = []
    for name in (part.strip() for part in visible.split(",")):
        if name.isdigit() and int(name) < len(found):
            chosen.append(found[int(name)])
        chosen += [uuid for uuid in found if name and not name.isdigit() and uuid.startswith(name)]
    return chosen


def claim_device(tell: Callable[[str], None]) -> Claim | None:
    """Hold one of the devices and make it the only one that CUDA shows to this process; None where there is none.

    Takes a free one, else waits for the first to become free and says so once through `tell`.
    """
    claim = claim_one_of(devices(), tell)
    if claim is not None:
        os.environ[VISIBLE] = claim.device
    return claim


def claim_one_of(names: Sequence[str], tell: Callable[[str], None]) -> Claim | None:
    """The first of these names that nobody holds, waiting for one if need be; None for no names."""
    if not names:
        return None
    started = time.monotonic()
    told = False
    while True:
        for name in names:
            fd = _try(name)
            if fd is not None:
                return Claim(name, time.monotonic() - started, fd)
        if not told:
            holders = ", ".join(_holder(name) for name in names)
            tell(f"waiting for the device: another evaluation runs on it ({holders})")
            told = True
        time.sleep(POLL_S)


def _path(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"harness-{name}.lock"


def _try(name: str) -> int | None:
    """A descriptor that holds the lock, or None while somebody else does."""
    try:
        # Without O_CREAT first: in a sticky folder the kernel may refuse it on a file of another user that is there.
        fd = os.open(_path(name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = _made(_path(name))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    os.ftruncate(fd, 0)
    os.write(fd, str(os.getpid()).encode())
    return fd


def _made(path: Path) -> int:
    """A descriptor of a lock that every user of the machine shares."""
    old = os.umask(0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    finally:
        os.umask(old)


def _holder(name: str) -> str:
    try:
        return f"process {int(_path(name).read_text())}"
    except (OSError, ValueError):
        return "an unknown process"

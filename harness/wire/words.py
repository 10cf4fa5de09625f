"""One page of host memory mapped into both processes: the words that gate and end a timed call on a CUDA device.

Each word is an int32 on a cache line of its own, except that the supervisor's words share one, so that the device reads
them in one transaction. The number of the call is what is written; numbers only grow.

`RELEASE`       supervisor -> device: the call may start
`PING`          supervisor -> device: are you scheduled at this moment?
`REVEALED`      supervisor -> device: the input lies in its slot; take it out of the caches
`PONG`          device -> supervisor: yes (the gate echoes the ping)
`ACKNOWLEDGE`   device -> supervisor: the gate fills the whole device
`FLUSHED`       device -> supervisor: the L2 has been read over twice
`DONE`          device -> supervisor: everything the call queued has ended
`DIGEST`        device -> supervisor: the three words of the digest of its output, and with them, in one transaction,
                the call's number
`COPIED`        device -> supervisor: the output lies in the shared slot
"""

from __future__ import annotations

import fcntl
import mmap
import os

PAGE_BYTES = 4096
RELEASE, PING, REVEALED = 0, 1, 2
ACKNOWLEDGE = 16
PONG = 32
DONE = 48
COPIED = 64
FLUSHED = 80
DIGEST, DIGESTED = 96, 99


def sealed_file(name: str, nbytes: int) -> int:
    """A descriptor of an anonymous file of zeros whose size nobody can change: touching a mapping of a file that was
    cut ends a process."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, nbytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


class Page:
    """The mapped page. `words[i]` reads and writes int32 number `i`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, PAGE_BYTES)
        self.words = memoryview(self._map).cast("i")

    @classmethod
    def create(cls) -> Page:
        """A new page, all zero, in an anonymous file whose descriptor can be passed on."""
        return cls(sealed_file("harness-words", PAGE_BYTES))

    def address(self) -> int:
        """Where the page is mapped in this process."""
        import ctypes

        return ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def close(self) -> None:
        self.words.release()
        os.close(self.fd)

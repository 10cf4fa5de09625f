"""The worker's side of a device: opening shared memory, and one timed call behind the supervisor's gate.

This is the one place on the untrusted side that touches CUDA. It is loaded before the submission, and takes what it
needs from the driver then, so that patches to torch's Python functions do not reach it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

import torch

from harness.cuda import driver
from harness.cuda.digest import CLOCK_PTX, Digest
from harness.wire import words
from harness.wire.channel import ChannelClosed
from harness.worker.output import Move


class WorkerDevice(Protocol):
    """What the worker needs of a device."""

    def synchronize(self) -> None:
        """Wait for everything queued; raises what the device reports."""

    def timed(self, number: int, call: Callable[[], Any], collect: Callable[[Any], list[Move]]) -> int:
        """Wait at the gate, call, tell that it is done, take the output the ways that `collect` finds for it. Returns
        the events' reading in ns, or 0."""


def open_host_arena(fd: int, nbytes: int) -> torch.Tensor:
    """Shared host memory as a flat uint8 tensor."""
    shared = mmap.mmap(fd, nbytes)
    os.close(fd)
    return torch.frombuffer(shared, dtype=torch.uint8)  # which keeps the mapping alive


def open_cuda_arena(fd: int, nbytes: int) -> torch.Tensor:
    """Shared device memory as a flat uint8 tensor; it stays mapped as long as the process lives."""
    memory = driver.SharedMemory.open(fd, nbytes, torch.cuda.current_device())
    os.close(fd)
    return torch.as_tensor(memory, device="cuda")


class CpuDevice:
    """The gate is one byte on a socket."""

    def __init__(self, clock: socket.socket, queued: Callable[[], None]) -> None:
        self._clock = clock
        self._queued = queued

    def synchronize(self) -> None:
        pass

    def timed(self, number: int, call: Callable[[], Any], collect: Callable[[Any], list[Move]]) -> int:
        self._queued()
        if not self._clock.recv(1):
            raise ChannelClosed("the supervisor closed the clock")
        output = call()
        self._clock.send(b"d")
        for move in collect(output):
            move.copy()
        return 0


class CudaDevice:
    """The gate is a kernel that fills the device (see `harness/cuda/clock.cu`)."""

    def __init__(self, page_fd: int, queued: Callable[[], None], index: int = 0) -> None:
        torch.cuda.set_device(index)
        torch.zeros(1, device="cuda")  # makes torch's primary context current
        self._index = index
        self._queued = queued
        self._page = words.Page(page_fd)
        self._page_on_device = driver.map_host_page(self._page.address(), words.PAGE_BYTES)
        module = driver.load_module(CLOCK_PTX)
        self._gate, self._mark = driver.Kernel(module, "gate"), driver.Kernel(module, "mark")
        self._digest = Digest(module)
        self._state = driver.allocate(16)
        self._flush_bytes = 2 * torch.cuda.get_device_properties(index).L2_cache_size
        self._flush = driver.allocate(self._flush_bytes)
        properties = torch.cuda.get_device_properties(index)
        slots = properties.max_threads_per_multi_processor
        self._gate_threads = 1024 if slots % 1024 == 0 else 512  # 1536 slots an SM hold three blocks of 512
        self._gate_blocks = properties.multi_processor_count * (slots // self._gate_threads)
        self._start, self._end = driver.Event(), driver.Event()

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def timed(self, number: int, call: Callable[[], Any], collect: Callable[[Any], list[Move]]) -> int:
        stream = torch.cuda.current_stream().cuda_stream
        c_number, c_page = ctypes.c_int(number), ctypes.c_uint64(self._page_on_device)
        driver.reset_persisting_l2()
        self._gate.launch(
            self._gate_blocks,
            self._gate_threads,
            stream,
            c_page,
            c_number,
            ctypes.c_uint64(self._state),
            ctypes.c_uint64(self._flush),
            ctypes.c_int(self._flush_bytes // 16),
            ctypes.c_int(self._gate_blocks),
        )
        self._start.record(stream)
        output = call()
        self._end.record(stream)
        self._tell(words.DONE, c_number, stream)
        ways = [(move.target.is_cuda and move.direct, move) for move in collect(output)]
        for direct, move in ways:
            if not direct:
                move.copy()
        spans = [move.span for _, move in ways if move.target.is_cuda]
        self._digest.launch(spans, stream, self._page_on_device, number)
        for direct, move in ways:
            if direct:
                move.copy()
        self._tell(words.COPIED, c_number, stream)
        self._queued()
        torch.cuda.synchronize()
        return self._end.since_ns(self._start)

    def _tell(self, word: int, number: ctypes.c_int, stream: int) -> None:
        self._mark.launch(1, 1, stream, ctypes.c_uint64(self._page_on_device + 4 * word), number)

"""The few calls of the CUDA driver API that torch does not offer, by ctypes: shared device memory by file descriptor,
mapped host pages, a kernel launch, events, and the reset of persisting L2 lines.

Source: CUDA Driver API reference, sections Virtual Memory Management, Memory Management, Execution Control and Event
Management. Every call works on the calling thread's current context, which is torch's primary context.
"""

from __future__ import annotations

import ctypes
from ctypes import Structure, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_ushort, c_void_p
from ctypes import c_ulonglong as c_u64
from dataclasses import dataclass
from functools import cache

OUT_OF_MEMORY = 2
POSIX_FILE_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
ON_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
HOST_REGISTER_DEVICE_MAP = 2  # CU_MEMHOSTREGISTER_DEVICEMAP
ON_THE_HOST, ON_A_DEVICE = 1, 2  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE


class CudaError(Exception):
    """A driver call failed; the text holds the call and the driver's own words."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(f"{call}: {words} (error {code})")
        self.code = code


class _Location(Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _AllocationFlags(Structure):
    _fields_ = (("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4))


class _AllocationProperties(Structure):
    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", _Location),
        ("win32", c_void_p),
        ("flags", _AllocationFlags),
    )


class _AccessDescription(Structure):
    _fields_ = (("location", _Location), ("flags", c_int))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    """Call a driver function. Raises CudaError when it does not answer CUDA_SUCCESS."""
    code = getattr(_library(), name)(*arguments)
    if code:
        words = c_char_p()
        _library().cuGetErrorString(code, byref(words))
        raise CudaError(name, code, (words.value or b"unknown error").decode())


def _properties(device: int) -> _AllocationProperties:
    return _AllocationProperties(PINNED, POSIX_FILE_DESCRIPTOR, _Location(ON_DEVICE, device), None, _AllocationFlags())


def _map(handle: c_u64, nbytes: int, device: int) -> int:
    address = c_u64()
    call("cuMemAddressReserve", byref(address), c_size_t(nbytes), c_size_t(0), c_u64(0), c_u64(0))
    call("cuMemMap", address, c_size_t(nbytes), c_size_t(0), handle, c_u64(0))
    access = _AccessDescription(_Location(ON_DEVICE, device), READ_WRITE)
    call("cuMemSetAccess", address, c_size_t(nbytes), byref(access), c_size_t(1))
    return address.value


class SharedMemory:
    """Device memory that two processes map. `address` is a device pointer in this process, `nbytes` its size."""

    def __init__(self, address: int, nbytes: int, device: int, fd: int | None) -> None:
        self.address, self.nbytes, self.device, self.fd = address, nbytes, device, fd

    @classmethod
    def create(cls, nbytes: int, device: int) -> SharedMemory:
        """Allocate at least `nbytes` and export it as a file descriptor. Raises CudaError (code 2: out of memory)."""
        properties = _properties(device)
        granularity = c_size_t()
        call("cuMemGetAllocationGranularity", byref(granularity), byref(properties), c_int(0))
        size = -(-max(nbytes, 1) // granularity.value) * granularity.value
        handle = c_u64()
        call("cuMemCreate", byref(handle), c_size_t(size), byref(properties), c_u64(0))
        fd = c_int()
        call("cuMemExportToShareableHandle", byref(fd), handle, c_int(POSIX_FILE_DESCRIPTOR), c_u64(0))
        address = _map(handle, size, device)
        call("cuMemRelease", handle)  # the mapping keeps it
        return cls(address, size, device, fd.value)

    @classmethod
    def open(cls, fd: int, nbytes: int, device: int) -> SharedMemory:
        """Map memory that another process exported; `nbytes` is the exporter's `nbytes`."""
        handle = c_u64()
        call("cuMemImportFromShareableHandle", byref(handle), c_void_p(fd), c_int(POSIX_FILE_DESCRIPTOR))
        address = _map(handle, nbytes, device)
        call("cuMemRelease", handle)
        return cls(address, nbytes, device, None)

    def close(self) -> None:
        """Unmap. The memory goes back when every process has unmapped it and closed its descriptor."""
        import os

        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        if self.address:
            call("cuMemUnmap", c_u64(self.address), c_size_t(self.nbytes))
            call("cuMemAddressFree", c_u64(self.address), c_size_t(self.nbytes))
            self.address = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Flat uint8, so that `torch.as_tensor(memory, device="cuda")` is a view of it."""
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3, "strides": None}


def map_host_page(address: int, nbytes: int) -> int:
    """Register host memory as mapped; returns its device pointer in the current context."""
    call("cuMemHostRegister_v2", c_void_p(address), c_size_t(nbytes), c_uint(HOST_REGISTER_DEVICE_MAP))
    pointer = c_u64()
    call("cuMemHostGetDevicePointer_v2", byref(pointer), c_void_p(address), c_uint(0))
    return pointer.value


class Kernel:
    """A loaded kernel. Arguments are ctypes values in the kernel's order."""

    def __init__(self, module: c_void_p, name: str) -> None:
        self._function = c_void_p()
        call("cuModuleGetFunction", byref(self._function), module, name.encode())

    def launch(self, blocks: int, threads: int, stream: int, *arguments: ctypes._SimpleCData | Structure) -> None:
        packed = (c_void_p * len(arguments))(*[ctypes.cast(byref(a), c_void_p) for a in arguments])
        size = [c_uint(n) for n in (blocks, 1, 1, threads, 1, 1, 0)]
        call("cuLaunchKernel", self._function, *size, c_void_p(stream), packed, None)


def load_module(ptx: bytes) -> c_void_p:
    """Load PTX into the current context."""
    module = c_void_p()
    call("cuModuleLoadData", byref(module), c_char_p(ptx))
    return module


def allocate(nbytes: int) -> int:
    """Plain device memory, zeroed, for as long as the context lives."""
    pointer = c_u64()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(nbytes))
    call("cuMemsetD8_v2", pointer, c_ubyte(0), c_size_t(nbytes))
    return pointer.value


def copy_to_host(host: int, device: int, nbytes: int, stream: int) -> None:
    """Copy so much device memory to the host after what the stream holds, and wait until it is there."""
    call("cuMemcpyDtoHAsync_v2", c_void_p(host), c_u64(device), c_size_t(nbytes), c_void_p(stream))
    call("cuStreamSynchronize", c_void_p(stream))


def reset_persisting_l2() -> None:
    """Turn every persisting line of the L2 back to normal, so that a flush reaches it. Devices before Ampere have
    none and say so, which is as good."""
    _library().cuCtxResetPersistingL2Cache()


class _Copy2D(Structure):
    _fields_ = (
        ("source_x", c_size_t),
        ("source_y", c_size_t),
        ("source_type", c_int),
        ("source_host", c_void_p),
        ("source_device", c_u64),
        ("source_array", c_void_p),
        ("source_pitch", c_size_t),
        ("target_x", c_size_t),
        ("target_y", c_size_t),
        ("target_type", c_int),
        ("target_host", c_void_p),
        ("target_device", c_u64),
        ("target_array", c_void_p),
        ("target_pitch", c_size_t),
        ("width", c_size_t),
        ("height", c_size_t),
    )


@dataclass(frozen=True)
class Rows:
    """Runs of `width` bytes, `pitch` bytes apart from `offset` on, of a block of device memory. In pinned host memory
    they lie packed."""

    offset: int
    pitch: int
    width: int
    count: int

    @property
    def nbytes(self) -> int:
        return self.count * self.width


def copy_rows_to_device(device: int, host: int, rows: Rows, stream: int) -> None:
    """Queue a copy of packed runs in pinned host memory to their places in the block at `device`.

    A copy engine does it, beside whatever the multiprocessors run, for another process too.
    """
    copy = _Copy2D(source_type=ON_THE_HOST, source_host=host, source_pitch=rows.width)
    copy.target_type, copy.target_device, copy.target_pitch = ON_A_DEVICE, device + rows.offset, rows.pitch
    _copy_2d(copy, rows, stream)


def _copy_2d(copy: _Copy2D, rows: Rows, stream: int) -> None:
    copy.width, copy.height = rows.width, rows.count
    call("cuMemcpy2DAsync_v2", byref(copy), c_void_p(stream))


class Event:
    """A timing event."""

    def __init__(self) -> None:
        self._event = c_void_p()
        call("cuEventCreate", byref(self._event), c_uint(0))

    def record(self, stream: int) -> None:
        call("cuEventRecord", self._event, c_void_p(stream))

    def since_ns(self, start: Event) -> int:
        """Nanoseconds from `start` to this event; both must have completed. The driver's resolution is about 0.5 µs on
        older devices and finer on newer ones."""
        milliseconds = c_float()
        call("cuEventElapsedTime", byref(milliseconds), start._event, self._event)
        return round(milliseconds.value * 1e6)


def driver_version() -> str:
    """The CUDA version that the driver supports, e.g. `13.0`; empty without a driver."""
    version = c_int()
    try:
        call("cuDriverGetVersion", byref(version))
    except (OSError, CudaError):
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


__all__ = [
    "OUT_OF_MEMORY",
    "CudaError",
    "Event",
    "Kernel",
    "SharedMemory",
    "allocate",
    "call",
    "copy_rows_to_device",
    "copy_to_host",
    "driver_version",
    "load_module",
    "map_host_page",
    "reset_persisting_l2",
]

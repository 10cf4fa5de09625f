"""Lets torch's C++ code name a CUDA device where no CUDA driver is.

Much of torch (indexing, copies) asks the registered *device guard* of a device type to make a device current. A build
for CUDA has one, and torch itself replaces it by a guard that does nothing where no device is visible
(`torch._C._ensureCUDADeviceGuardSet`, made for fake tensors). A build without CUDA has none at all and raises; there,
the guard of the meta device, which does nothing either, is put in its place.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
_CUDA, _META = 1, 14  # c10/core/DeviceType.h


def allow_cuda_devices() -> None:
    """Make the guard for CUDA devices one that does nothing. For a process that never touches a real device."""
    torch._C._ensureCUDADeviceGuardSet()
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * (_META + 1)).in_dll(library, _REGISTRY)
    if registry[_CUDA] is None:
        registry[_CUDA] = registry[_META]

"""DLPack capsules for make-believe tensors: true shape, strides and type, an address where nothing is.

Consumers read the description when they compile; the address would only be used by a launch, and there is none. Layout
of the structures: `dlpack/dlpack.h`, version 0.8 (`DLManagedTensor`), type codes as of 1.1.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_CODES: dict[str, tuple[int, int, int]] = {
    # torch's name: (code, bits, lanes)
    "bool": (_BOOL, 8, 1),
    "bfloat16": (_BFLOAT, 16, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
    **{f"int{bits}": (_INT, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (_UINT, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (_FLOAT, bits, 1) for bits in (16, 32, 64)},
    **{f"complex{bits}": (_COMPLEX, bits, 1) for bits in (64, 128)},
}
CUDA_DEVICE, CPU_DEVICE = 2, 1  # kDLCUDA, kDLCPU


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_kept: list[Any] = []
"""Descriptions live as long as the process, which is short: their consumers may outlive any tensor."""


def capsule(tensor: torch.Tensor, device_type: int) -> Any:
    """A `dltensor` capsule that describes a tensor. Raises BufferError for a type that DLPack has no code for."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _CODES:
        raise BufferError(f"DLPack has no type for {tensor.dtype}")
    dims = tensor.dim()
    shape = (ctypes.c_int64 * max(dims, 1))(*tensor.shape)
    strides = (ctypes.c_int64 * max(dims, 1))(*tensor.stride())
    described = _Tensor(tensor.data_ptr(), _Device(device_type, 0), dims, _DataType(*_CODES[name]), shape, strides, 0)
    managed = _Managed(described, None, None)
    _kept.append((managed, shape, strides))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(managed), b"dltensor", None)

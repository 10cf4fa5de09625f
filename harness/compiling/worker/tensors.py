"""Make-believe device tensors: they say `cuda:0`, have an address, and compute on the CPU where that is cheap.

A `DeviceTensor` wraps an *inner* tensor: a real CPU one while it is small, a meta one (shape without memory) where it
or anything it came from is large. So code that reads sizes or indices from small tensors runs as on a device, and a
matrix of 32768² costs nothing. What a kernel would have written is not known; such values are zeros, and reading one
on the host is noted as a guess.

`make_believe` makes them and runs every operation on them.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch

from harness.compiling.worker import dlpack
from harness.compiling.worker.collect import NotFollowedError

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")

_ADDRESS, _UNKNOWN = "_harness_address", "_harness_unknown"
_ALIGNMENT = 512  # what the caching allocator gives
_next_address = 0x7F00_0000_0000


def address_of(inner: torch.Tensor) -> int:
    """A device address for an inner tensor, the same for all views of its storage."""
    global _next_address
    storage = inner.untyped_storage()
    base = getattr(storage, _ADDRESS, None)
    if base is None:
        base = _next_address
        _next_address += -(-max(storage.nbytes(), 1) // _ALIGNMENT) * _ALIGNMENT
        setattr(storage, _ADDRESS, base)
    return int(base) + int(inner.storage_offset()) * inner.element_size()


def mark_unknown(tensor: torch.Tensor) -> None:
    """A kernel may have written to this tensor."""
    setattr(inner_of(tensor).untyped_storage(), _UNKNOWN, True)


_exposed: dict[int, weakref.ref[torch.Tensor]] = {}
"""Tensors whose address was asked for, by that address."""


def mark_exposed_unknown() -> None:
    """A launch took addresses, nobody knows which: any tensor whose address was ever asked for may have changed."""
    for reference in list(_exposed.values()):
        tensor = reference()
        if tensor is not None:
            mark_unknown(tensor)


def is_unknown(tensor: torch.Tensor) -> bool:
    inner = inner_of(tensor)
    return inner.device.type == "meta" or bool(getattr(inner.untyped_storage(), _UNKNOWN, False))


def inner_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._inner if isinstance(tensor, DeviceTensor) else tensor


class DeviceTensor(torch.Tensor):
    """A tensor that says it is on `device`, which is `cuda:0`, or `cpu` for one without memory."""

    _inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor, device: torch.device = DEVICE) -> DeviceTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=device,
            requires_grad=False,
        )
        made._inner = inner
        return made

    def data_ptr(self) -> int:
        _exposed[address_of(self._inner)] = weakref.ref(self)
        return address_of(self._inner)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return dlpack.capsule(self, self.__dlpack_device__()[0])

    def __dlpack_device__(self) -> Any:
        return (dlpack.CUDA_DEVICE if self.device.type == "cuda" else dlpack.CPU_DEVICE, 0)

    def tolist(self) -> Any:
        return _readable(self, "tolist").tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if self.device.type == "cuda" and not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory"
                " first."
            )
        return _readable(self, "numpy").numpy()

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"tensor(…, shape={tuple(self.shape)}, dtype={self.dtype}, device='{self.device}')"

    def __deepcopy__(self, memo: Any) -> DeviceTensor:
        return self.clone()  # type: ignore[return-value]

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if _runner is None:
            raise NotFollowedError(f"{func} on a make-believe tensor outside the run")
        return _runner.run(func, args, kwargs or {})


class Runner(Protocol):
    """What runs the operations on these tensors."""

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any: ...

    def guess(self, what: str) -> None: ...


_runner: Runner | None = None


def run_by(runner: Runner | None) -> None:
    """From now on `runner` runs the operations; None while nobody does."""
    global _runner
    _runner = runner


def _readable(tensor: DeviceTensor, how: str) -> torch.Tensor:
    if tensor._inner.device.type == "meta":
        raise NotFollowedError(
            f"{how}() of a tensor of shape {tuple(tensor.shape)}, whose values only a device computes"
        )
    if _runner is not None and is_unknown(tensor):
        _runner.guess(how)
    return tensor._inner

"""Following a submission on a device that is not there: every operation on make-believe tensors is run here.

`MakeBelieve` is the pair of modes that does it: one rewrites device arguments, the other runs every operation, on the
CPU while its tensors are small, else on shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from harness.compiling.record import ProblemKind
from harness.compiling.worker.collect import Collector, NotFollowedError
from harness.compiling.worker.operations import bare, computes, custom_op, to_meta, written_by
from harness.compiling.worker.tensors import CPU, DEVICE, DeviceTensor, inner_of, is_unknown, mark_unknown, run_by

MOST_REAL_ELEMENTS = 1 << 22
"""Largest tensor that is really computed; 4 M elements keep a matrix product under a second on one core."""

_READS_VALUE = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal", "aten::allclose")
_aside = 0


@contextmanager
def aside() -> Iterator[None]:
    """Within, operations that no make-believe tensor takes part in run as if there was no make-believe device."""
    global _aside
    _aside += 1
    try:
        yield
    finally:
        _aside -= 1


class MakeBelieve:
    """While entered, `device="cuda"` makes `DeviceTensor`s and every operation on them is run here."""

    def __init__(self, collector: Collector, most_real_elements: int = MOST_REAL_ELEMENTS) -> None:
        self._collector = collector
        self._most = most_real_elements
        self._stack = ExitStack()

    def __enter__(self) -> MakeBelieve:
        run_by(self)
        self._stack.enter_context(_Dispatch(self))
        self._stack.enter_context(_Devices())
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        run_by(None)

    def guess(self, what: str) -> None:
        """Note that a value was read that a kernel would have computed."""
        self._collector.problem(
            ProblemKind.GUESS,
            f"{what}: the host reads a value that only the device computes; followed as if it were zero",
            source=self._collector.user_line(),
        )

    def place(self, inner: torch.Tensor, device: torch.device) -> torch.Tensor:
        """An inner tensor as the submission sees it on a device."""
        if device.type == "cuda" or inner.device.type == "meta":
            return DeviceTensor(inner, DEVICE if device.type == "cuda" else CPU)
        return inner

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One operation: on CPU where all its tensors are real and small, else on shapes alone."""
        leaves, spec = tree_flatten((args, kwargs))
        if _aside and not any(isinstance(leaf, DeviceTensor) for leaf in leaves):
            return func(*args, **kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        on_device = any(tensor.device.type == "cuda" for tensor in tensors)
        asked = kwargs.get("device")
        device = torch.device(asked) if asked is not None else DEVICE if on_device else CPU
        if not on_device and device.type == "cpu" and all(type(t) is not DeviceTensor for t in tensors):
            return func(*args, **kwargs)  # the host's own business
        custom = custom_op(func)
        if custom is not None:
            with self:  # the modes are off within an operation
                return custom(*args, **kwargs)
        name = func._schema.name
        if name in _READS_VALUE:
            return self._read(func, args, kwargs, tensors)
        self._collector.library_call(func._schema.name.removeprefix("aten::")) if computes(func) and on_device else None
        inners = [inner_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        real = all(inner_of(tensor).device.type != "meta" for tensor in tensors)
        unknown = any(is_unknown(tensor) for tensor in tensors)
        by_inner = {id(inner_of(tensor)): tensor for tensor in tensors}
        written = written_by(func, args, kwargs)
        if not real and any(inner_of(tensor).device.type != "meta" for tensor in written):
            for tensor in written:  # a real tensor that takes values nobody knows keeps its memory
                mark_unknown(tensor)
            if len(written) == 1 and len(func._schema.returns) == 1:
                return written[0]
        out, is_real = self._evaluate(func, inners, spec, real, device)

        def dress(inner: Any) -> Any:
            if not isinstance(inner, torch.Tensor):
                return inner
            if id(inner) in by_inner:
                self._same_form(func, by_inner[id(inner)], inner)
                return by_inner[id(inner)]
            if unknown:
                mark_unknown(inner)
            return self.place(inner, device)

        if unknown and is_real:
            for tensor in written:
                mark_unknown(tensor)
        return tree_map(dress, out)

    def _read(self, func: Any, args: Any, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Any:
        for tensor in tensors:
            if inner_of(tensor).device.type == "meta":
                if func._schema.name in ("aten::equal", "aten::allclose"):
                    self.guess("torch.equal" if "equal" in func._schema.name else "torch.allclose")
                    return True
                if tensor.numel() == 1:
                    self.guess("item()")
                    return False if tensor.dtype is torch.bool else 0 if not tensor.dtype.is_floating_point else 0.0
                raise NotFollowedError("a value that only the device computes decides what happens next")
            if is_unknown(tensor):
                self.guess("item()")
        return func(*tree_map(bare, args), **tree_map(bare, kwargs))

    def _evaluate(self, func: Any, leaves: list[Any], spec: Any, real: bool, device: torch.device) -> tuple[Any, bool]:
        args, kwargs = tree_unflatten(leaves, spec)
        kwargs.pop("pin_memory", None)
        if real:
            small = self._fits(func, args, kwargs)
            if small:
                try:
                    return self._on_cpu(func, args, kwargs), True
                except NotImplementedError:
                    pass  # no kernel for the CPU: its shape is known all the same
        try:
            return self._on_meta(func, args, kwargs), False
        except NotImplementedError as error:
            raise NotFollowedError(f"{func._schema.name}: neither the CPU nor its shape rule can follow it") from error

    def _fits(self, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether the result is small enough to be computed. Views cost nothing, and shapes are found cheaply."""
        if func.is_view:
            return True
        try:
            out = self._on_meta(func, args, kwargs)
        except Exception:
            return True  # the shape depends on values, so its inputs are small enough
        sizes = [leaf.numel() for leaf in tree_flatten(out)[0] if isinstance(leaf, torch.Tensor)]
        return max(sizes, default=0) <= self._most

    def _on_cpu(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": CPU}
        if func._schema.name in ("aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty"):
            made = func(*args, **kwargs)
            made.untyped_storage().fill_(0) if made.untyped_storage().nbytes() else None
            mark_unknown(made)
            return made
        return func(*args, **kwargs)

    def _on_meta(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("device") is not None or not any(
            isinstance(leaf, torch.Tensor) for leaf in tree_flatten((args, kwargs))[0]
        ):
            kwargs = {**kwargs, "device": torch.device("meta")}
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        args, kwargs = tree_map(to_meta, (args, kwargs))
        return func(*args, **kwargs)

    def _same_form(self, func: Any, outer: torch.Tensor, inner: torch.Tensor) -> None:
        if outer.shape != inner.shape or outer.stride() != inner.stride():
            raise NotFollowedError(f"{func._schema.name} changes a tensor's shape in place")


class _Dispatch(TorchDispatchMode):
    def __init__(self, owner: MakeBelieve) -> None:
        super().__init__()
        self._owner = owner

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is traced here, and to say so would import the tracer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._owner.run(func, args, kwargs or {})


_FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor, torch.Tensor.new_tensor)


class _Devices(TorchFunctionMode):
    """Gives every CUDA device an index before C++ sees it: there's no driver that could say which is current."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0].to(DEVICE)
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.Tensor.is_pinned:
            return False
        if func is torch.Tensor.record_stream:
            return None
        if func in _FROM_DATA and (kwargs.get("device") is not None or func is torch.Tensor.new_tensor):
            # These fill host memory and move it by themselves, past every mode.
            device = kwargs.pop("device", None) or (args[0].device if func is torch.Tensor.new_tensor else CPU)
            made = torch.tensor(*args[1:], **kwargs) if func is torch.Tensor.new_tensor else func(*args, **kwargs)
            return made.to(_indexed(device))
        args = tuple(_indexed(arg) for arg in args)
        kwargs = {key: _indexed(value) for key, value in kwargs.items()}
        kwargs.pop("pin_memory", None)
        return func(*args, **kwargs)


def _indexed(value: Any) -> Any:
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return DEVICE
    if isinstance(value, torch.device) and value.type == "cuda":
        return DEVICE
    return value

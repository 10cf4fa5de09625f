"""Make-believe device tensors: they say `cuda:0`, have an address, and compute on the CPU where that is cheap.

A `DeviceTensor` wraps an *inner* tensor: a real CPU one while it is small, a meta one (shape without memory) where it
or anything it came from is large. So code that reads sizes or indices from small tensors runs as on a device, and a
matrix of 32768² costs nothing. What a kernel would have written is not known; such values are zeros, and reading one
on the host is noted as a guess.

`MakeBelieve` is the pair of modes that does it: one rewrites device arguments, the other runs every operation.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from harness.compiling.record import ProblemKind
from harness.compiling.worker import dlpack
from harness.compiling.worker.collect import Collector, NotFollowedError

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
MOST_REAL_ELEMENTS = 1 << 22
"""Largest tensor that is really computed; 4 M elements keep a matrix product under a second on one core."""

_ADDRESS, _UNKNOWN = "_harness_address", "_harness_unknown"
_READS_VALUE = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal", "aten::allclose")
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
        if _active is None:
            raise NotFollowedError(f"{func} on a make-believe tensor outside the run")
        return _active.run(func, args, kwargs or {})


_active: MakeBelieve | None = None


def _readable(tensor: DeviceTensor, how: str) -> torch.Tensor:
    if tensor._inner.device.type == "meta":
        raise NotFollowedError(
            f"{how}() of a tensor of shape {tuple(tensor.shape)}, whose values only a device computes"
        )
    if _active is not None and is_unknown(tensor):
        _active.guess(how)
    return tensor._inner


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
        global _active
        _active = self
        self._stack.enter_context(_Dispatch(self))
        self._stack.enter_context(_Devices())
        return self

    def __exit__(self, *exc: object) -> None:
        global _active
        self._stack.close()
        _active = None

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
        custom = _custom_op(func)
        if custom is not None:
            with self:  # the modes are off within an operation
                return custom(*args, **kwargs)
        name = func._schema.name
        if name in _READS_VALUE:
            return self._read(func, args, kwargs, tensors)
        self._collector.library_call(func._schema.name.removeprefix("aten::")) if _computes(
            func
        ) and on_device else None
        inners = [inner_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        real = all(inner_of(tensor).device.type != "meta" for tensor in tensors)
        unknown = any(is_unknown(tensor) for tensor in tensors)
        by_inner = {id(inner_of(tensor)): tensor for tensor in tensors}
        written = _written(func, args, kwargs)
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
                setattr(inner.untyped_storage(), _UNKNOWN, True)
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
        return func(*tree_map(_bare, args), **tree_map(_bare, kwargs))

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
            setattr(made.untyped_storage(), _UNKNOWN, True)
            return made
        return func(*args, **kwargs)

    def _on_meta(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("device") is not None or not any(
            isinstance(leaf, torch.Tensor) for leaf in tree_flatten((args, kwargs))[0]
        ):
            kwargs = {**kwargs, "device": torch.device("meta")}
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        args, kwargs = tree_map(_to_meta, (args, kwargs))
        return func(*args, **kwargs)

    def _same_form(self, func: Any, outer: torch.Tensor, inner: torch.Tensor) -> None:
        if outer.shape != inner.shape or outer.stride() != inner.stride():
            raise NotFollowedError(f"{func._schema.name} changes a tensor's shape in place")


def _bare(leaf: Any) -> Any:
    return inner_of(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _to_meta(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.device.type == "meta":
        return leaf
    storage = leaf.untyped_storage()
    flat = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta").untyped_storage()
    made = torch.empty(0, dtype=leaf.dtype, device="meta")
    return made.set_(flat, leaf.storage_offset(), leaf.shape, leaf.stride())


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that an operation writes to, by its schema."""
    found: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            found += given if isinstance(given, list | tuple) else [given]
    return [each for each in found if isinstance(each, torch.Tensor)]


def _computes(func: Any) -> bool:
    """Whether an operation would run a kernel: neither a view nor an allocation."""
    name = func._schema.name
    return not func.is_view and "empty" not in name and name not in ("aten::detach", "aten::alias", "aten::lift_fresh")


@functools.cache
def _custom_op(func: Any) -> Callable[..., Any] | None:
    """The Python function behind an operation made by torch.library.custom_op or triton_op; None for any other."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return None
    found = OPDEFS.get(func._schema.name)
    if found is None:
        return None
    backends = getattr(found, "_backend_fns", {})
    return backends.get("cuda") or backends.get(None) or getattr(found, "_init_fn", None)


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

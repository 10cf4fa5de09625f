"""The output contract, judged by the supervisor on what arrived, before any value is compared with the reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import psutil
import torch

from harness.boards.board import Settings
from harness.boards.forms import described
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.workers import WorkerFault
from harness.wire.channel import Message
from harness.wire.packing import (
    FindClass,
    Manifest,
    NodePath,
    PackingError,
    dense_sizes,
    tensor_leaves,
    unpack,
    where,
)

MAX_OUTPUT_BYTES = 32 << 30
HOST_MEMORY_SHARE = 0.25
"""How much of the host memory that is free now an output there may take: room is made for it twice, and filled. (A
device that has too little says so by itself.)"""


@dataclass(frozen=True)
class OutputForm:
    """What a call returned, without its values: every later call of the same shape must return the same form."""

    manifest: Manifest
    sizes: tuple[int, ...]
    devices: tuple[str, ...]
    answer: Any = field(default=None, compare=False)
    """The board's own answer for such an input, where the output is of named tuples or dataclasses: those are made of
    the classes found there. Its tensors are without memory."""

    def same_as(self, other: OutputForm) -> bool:
        """Whether two outputs agree in all but their strides, which a kernel may choose anew at every call, and the
        values of their numbers."""
        return (self.sizes, self.devices, _form_only(self.manifest)) == (
            other.sizes,
            other.devices,
            _form_only(other.manifest),
        )

    @property
    def names_classes(self) -> bool:
        return _names_classes(self.manifest)


def _form_only(manifest: Manifest) -> Manifest:
    match manifest:
        case {"tensor": dict(leaf)}:
            return {"tensor": {key: value for key, value in leaf.items() if key != "strides"}}
        case {"value": value} if not isinstance(value, dict | list):
            return {"value": type(value).__name__}
        case {"float": str()}:
            return {"float": ""}
        case dict():
            return {key: _form_only(value) for key, value in manifest.items()}
        case list():
            return [_form_only(value) for value in manifest]
    return manifest


def _names_classes(manifest: Manifest) -> bool:
    match manifest:
        case {"tensor": _} | {"value": _} | {"float": _}:
            return False
        case {"namedtuple": _, "items": _} | {"dataclass": _, "items": _}:
            return True
        case dict():
            return any(_names_classes(value) for value in manifest.values())
        case list():
            return any(_names_classes(value) for value in manifest)
    return False


def broken(message: str) -> WorkerFault:
    return WorkerFault(Status.FAILED, Reason(ReasonCode.CONTRACT, message), fatal=False)


def may_write(settings: Settings, path: str) -> bool:
    """Whether the board lets a submission write the input at `path` (and return it)."""
    return any(path == pattern or fnmatchcase(path, pattern) for pattern in settings.in_place)


def form_of(answer: Message, input_devices: set[str], settings: Settings) -> OutputForm:
    """The form of the output that a `call` answer describes. Raises WorkerFault where it breaks the contract."""
    try:
        sizes = dense_sizes(answer.get("output"))
    except PackingError as error:
        raise broken(f"the output cannot be read: {error}") from None
    devices = answer.get("devices")
    if not isinstance(devices, list) or len(devices) != len(sizes) or not set(map(str, devices)) <= {"cpu", "cuda"}:
        raise broken("the output cannot be read: no device is named for a tensor")
    if not sizes:
        raise broken("the output holds no tensor")
    if input_devices and not set(devices) <= input_devices:
        raise broken(f"the output lies on {devices[0]}, the inputs on {', '.join(sorted(input_devices))}")
    on_host = sum(size for size, device in zip(sizes, devices, strict=True) if device == "cpu")
    most = int(HOST_MEMORY_SHARE * psutil.virtual_memory().available) if on_host else MAX_OUTPUT_BYTES
    for taken, allowed in ((sum(sizes), MAX_OUTPUT_BYTES), (on_host, most)):
        if taken > allowed:
            raise broken(
                f"the output is {taken / 2**30:.1f} GiB, more than the {allowed / 2**30:.1f} GiB there is room for"
            )
    check_aliases(answer, settings)
    return OutputForm(answer["output"], tuple(sizes), tuple(devices))


def check_aliases(answer: Message, settings: Settings) -> None:
    """Refuse an output that is an input's memory, unless the board lets that input be written."""
    for pair in answer.get("aliases") or ():
        output, given = (str(path) for path in pair)
        if not may_write(settings, given):
            raise broken(f"the output ({where(output)}) is the memory of the input ({where(given)})")


def rebuild(form: OutputForm, storages: Sequence[torch.Tensor], settings: Settings) -> Any:
    """The output's values from its snapshot. Raises WorkerFault for a non-finite value the board does not allow."""
    try:
        output = unpack(form.manifest, storages, _class_in(form.answer))
    except PackingError as error:
        raise broken(f"the output cannot be read: {error}") from None
    if not settings.allow_non_finite:
        for path, tensor in tensor_leaves(output):
            bad = non_finite(tensor)
            if bad is not None:
                raise broken(f"the output ({where(path)}) {bad}")
    return output


def _class_in(answer: Any) -> FindClass:
    """Gives the classes of named tuples and dataclasses that the board's own `answer` has in the same places."""

    def find(node: Manifest, path: NodePath) -> type:
        here = answer
        for key in path:
            here = _child(here, key)
        items = node["items"]
        if "namedtuple" in node and hasattr(here, "_fields") and isinstance(items, list) and len(here) == len(items):
            return type(here)
        if "dataclass" in node and _is_dataclass(here) and set(_fields_of(here)) == set(items):
            return type(here)
        came = "a named tuple" if "namedtuple" in node else "a dataclass"
        names = f"{came} of {', '.join(map(str, items))}" if isinstance(items, dict) else f"{came} of {len(items)}"
        expected = described(here) if here is not None else "plain data: the board's ref_kernel has none there"
        raise broken(f"the output ({where('.'.join(map(str, path)))}) is {names}, expected {expected}")

    return find


def _child(answer: Any, key: Any) -> Any:
    """What an answer holds under a key that a worker named; None where there is nothing."""
    if isinstance(answer, tuple | list):
        return answer[key] if isinstance(key, int) and 0 <= key < len(answer) else None
    if isinstance(answer, dict):
        return answer.get(key)
    return getattr(answer, key) if _is_dataclass(answer) and key in _fields_of(answer) else None


def _is_dataclass(answer: Any) -> bool:
    return dataclasses.is_dataclass(answer) and not isinstance(answer, type)


def _fields_of(answer: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(answer)]


def non_finite(tensor: torch.Tensor) -> str | None:
    """`has 3 values that are not finite, the first at [0, 1]: nan`, or None."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.dtype.itemsize == 1:
        return None  # one-byte floats are compared by the board; most of them have no infinity
    if bool(torch.isfinite(tensor.sum(dtype=torch.float32 if tensor.dtype.itemsize < 4 else None))):
        return None  # a finite sum has only finite terms, and costs no mask of the tensor's size
    bad = ~torch.isfinite(tensor)
    count = int(bad.sum())
    if not count:
        return None  # the sum overflowed, the terms did not
    first = tuple(int(i) for i in bad.nonzero()[0])
    return f"has {count} values that are not finite, the first at {list(first)}: {tensor[first].item()}"

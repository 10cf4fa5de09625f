"""The form of an answer: its containers, and the dtype, shape and device of each tensor.

A board's check is who says what forms it admits. Where it does not look at some aspect at all, which a question tells,
an answer must have the reference's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

from harness.boards import answers
from harness.wire.packing import dtype_name, join


class Aspect(StrEnum):
    ITEMS = "items"
    DTYPE = "dtype"
    SHAPE = "shape"
    DEVICE = "device"


@dataclass(frozen=True)
class Difference:
    aspect: Aspect
    message: str
    """`item 1 has shape [3], expected [4]`."""


def differences(output: Any, answer: Any, path: str = "") -> Iterator[Difference]:
    """Where the form of `output` is not that of `answer`. A list counts as a tuple, a named tuple as both."""
    what = f"item {path}" if path else "it"
    if isinstance(output, torch.Tensor) and isinstance(answer, torch.Tensor):
        if output.dtype != answer.dtype and not _holds(output.dtype, answer.dtype):
            expected = dtype_name(answer.dtype)
            yield Difference(Aspect.DTYPE, f"{what} has dtype {dtype_name(output.dtype)}, expected {expected}")
        if output.shape != answer.shape:
            text = f"{what} has shape {list(output.shape)}, expected {list(answer.shape)}"
            yield Difference(Aspect.SHAPE, text)
        if output.device.type != answer.device.type:
            text = f"{what} lies on {output.device.type}, expected {answer.device.type}"
            yield Difference(Aspect.DEVICE, text)
        return
    ours, theirs = _items(output), _items(answer)
    if ours is None and theirs is None and type(output) is type(answer):
        return
    if ours is None or theirs is None or list(ours) != list(theirs):
        yield Difference(Aspect.ITEMS, f"{what} is {described(output)}, expected {described(answer)}")
        return
    for key, item in theirs.items():
        yield from differences(ours[key], item, join(path, key))


def _holds(dtype: torch.dtype, other: torch.dtype) -> bool:
    """Whether one dtype has every value of another of its kind: returning more than is due gains nothing."""
    alike = dtype.is_floating_point == other.is_floating_point and dtype.is_complex == other.is_complex
    if not alike or min(dtype.itemsize, other.itemsize) == 1:
        return False
    return torch.promote_types(dtype, other) == dtype


def _items(node: Any) -> dict[Any, Any] | None:
    if isinstance(node, tuple | list):
        return dict(enumerate(node))
    if isinstance(node, dict):
        return {key: node[key] for key in sorted(node, key=str)}
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    return None


def described(node: Any) -> str:
    """`a list of 3`, `a tensor`, `an Output of q, r`."""
    if isinstance(node, torch.Tensor):
        return "a tensor"
    if dataclasses.is_dataclass(node) or hasattr(node, "_fields"):
        names = getattr(node, "_fields", None) or list(_items(node) or ())
        return f"{type(node).__name__}({', '.join(names)})"
    if isinstance(node, dict):
        return f"a dict of {', '.join(map(str, node))}"
    return f"a {type(node).__name__}" + (f" of {len(node)}" if isinstance(node, tuple | list) else "")


def in_other_forms(answer: Any) -> Iterator[tuple[Aspect, str, Any]]:
    """A right answer's values in forms that nobody asked for: a check that admits one does not look at that aspect.

    What torch cannot make of some dtype is left out.
    """

    def other_dtype(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex() or tensor.dtype is torch.bool:
            return tensor
        if tensor.is_floating_point():
            return tensor.to(torch.float32 if tensor.dtype is torch.float64 else torch.float64)
        return tensor.to(torch.int32 if tensor.dtype is torch.int64 else torch.int64)

    def twice(tensor: torch.Tensor) -> torch.Tensor:
        return torch.stack((tensor, tensor))

    def without_last_row(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:-1] if tensor.dim() and len(tensor) > 1 else tensor

    ways: list[tuple[Aspect, str, Callable[[torch.Tensor], torch.Tensor]]] = [
        (Aspect.DTYPE, "another dtype", other_dtype),
        (Aspect.SHAPE, "each tensor twice, stacked,", twice),
        (Aspect.SHAPE, "tensors without their last row", without_last_row),
    ]
    if torch.cuda.is_available():
        ways.append((Aspect.DEVICE, "host memory", lambda tensor: tensor.cpu()))
    for aspect, name, way in ways:
        with suppress(RuntimeError):
            yield aspect, name, answers.map_tensors(way, answer)
    if type(answer) in (tuple, list) and len(answer) > 1:
        yield Aspect.ITEMS, "all items but the last", answer[:-1]


def uncompared(admits: Callable[[Any], bool], answer: Any) -> frozenset[Aspect]:
    """The aspects that a check does not look at: `admits` says what it makes of an answer."""
    asked = ((aspect, other) for aspect, _, other in in_other_forms(answer))
    return frozenset(aspect for aspect, other in asked if differs(aspect, other, answer) and admits(other))


def differs(aspect: Aspect, output: Any, answer: Any) -> bool:
    """Whether two answers differ in an aspect; wider dtypes count."""
    if aspect is Aspect.DTYPE:
        ours, theirs = (answers.tensor_leaves(tree) for tree in (output, answer))
        return any(a.dtype != b.dtype for (_, a), (_, b) in zip(ours, theirs, strict=True))
    return any(found.aspect is aspect for found in differences(output, answer))

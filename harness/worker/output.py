"""The output contract where only the worker can see it, and the copying of an output into the shared slots.

The supervisor judges what arrives (dtype, shape, values) by itself; what is refused here is what it could not see:
subclasses that compute when looked at, attributes hung on a tensor, tensors without memory of their own.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import Any

import torch

from harness.cuda.digest import ALIGNMENT, Span
from harness.wire.packing import (
    Manifest,
    as_bytes,
    check_plain,
    dense_strides,
    dtype_name,
    join,
    tensor_leaves,
    to_manifest,
    where,
)

MAX_DEPTH = 32

Placement = tuple[str, int, int]
"""Where a block lies: the arena's name, the offset in it and the size, in bytes."""


class ContractError(Exception):
    """The output is not what a submission may return."""


@dataclass(frozen=True)
class Output:
    """What a call returned: its manifest with every tensor filling a storage of its own, and the tensors."""

    manifest: Manifest
    tensors: tuple[torch.Tensor, ...]
    sizes: tuple[int, ...]
    devices: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...]
    """(path of an output, path of the input whose memory it is)."""


def describe_output(output: Any, inputs: Sequence[tuple[str, torch.Tensor]]) -> Output:
    """Check the contract and say how the output will be copied. Raises ContractError, PackingError."""
    check_containers(output)
    leaves = list(tensor_leaves(output))
    for path, tensor in leaves:
        if type(tensor) is not torch.Tensor:
            kind = type(tensor).__name__
            raise ContractError(f"the output ({where(path)}) is a {kind}; a plain torch.Tensor is required")
        if getattr(tensor, "__dict__", None):
            names = ", ".join(sorted(tensor.__dict__))
            raise ContractError(f"the output ({where(path)}) carries attributes of its own: {names}")
        if tensor.numel() and tensor.untyped_storage().data_ptr() == 0:
            raise ContractError(f"the output ({where(path)}) has no memory behind it")
    manifest = _dense_manifest(output)
    aliases = tuple((path, at) for path, tensor in leaves for at, given in inputs if _same_memory(tensor, given))
    sizes = tuple(t.numel() * t.dtype.itemsize for _, t in leaves)
    return Output(
        manifest,
        tuple(t for _, t in leaves),
        sizes,
        tuple(t.device.type for _, t in leaves),
        aliases,
    )


def check_containers(node: Any, path: str = "", depth: int = 0) -> None:
    """Refuse containers of a class that could compute when they are read."""
    if depth > MAX_DEPTH:
        raise ContractError(f"the output is nested more than {MAX_DEPTH} deep")
    kind = type(node)
    for plain in (list, tuple, dict):
        if isinstance(node, plain) and kind is not plain and not (plain is tuple and _is_plain_named_tuple(kind)):
            raise ContractError(f"the output ({where(path)}) is a {kind.__name__}; a plain {plain.__name__} is due")
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list | tuple):
        items = enumerate(node)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        if not _is_plain_dataclass(kind):
            raise ContractError(f"the output ({where(path)}) is a {kind.__name__}; a plain dataclass is due")
        items = [(field.name, getattr(node, field.name)) for field in dataclasses.fields(node)]
    for key, item in items:
        check_containers(item, join(path, key), depth + 1)


def _is_plain_named_tuple(kind: type) -> bool:
    """Whether a class has fields, and its items are read by tuple's own methods."""
    own = all(getattr(kind, name) is getattr(tuple, name) for name in ("__iter__", "__getitem__", "__len__"))
    return hasattr(kind, "_fields") and own and kind.__getattribute__ is tuple.__getattribute__


def _is_plain_dataclass(kind: type) -> bool:
    """Whether reading a field runs no code of the class: fields are attributes or slots, never properties."""
    read = (vars(base).get(field.name) for field in dataclasses.fields(kind) for base in kind.__mro__)
    computed = any(hasattr(type(way), "__get__") and not isinstance(way, MemberDescriptorType) for way in read)
    return not computed and kind.__getattribute__ is object.__getattribute__ and not hasattr(kind, "__getattr__")


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the address ranges of two tensors meet."""
    if a.device != b.device or not a.numel() or not b.numel():
        return False
    (a_start, a_end), (b_start, b_end) = _span(a), _span(b)
    return a_start < b_end and b_start < a_end


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + reach * tensor.dtype.itemsize


def _dense_manifest(output: Any) -> Manifest:
    numbers = itertools.count()

    def leaf(tensor: torch.Tensor, path: str) -> Manifest:
        check_plain(tensor, path)
        shape = list(tensor.shape)
        told = {"storage": next(numbers), "dtype": dtype_name(tensor.dtype), "shape": shape}
        # The tensor's own order of dimensions where it has no gaps: the copy is then a plain one.
        return {"tensor": {**told, "strides": dense_strides(shape, tensor.stride()), "offset": 0}}

    return to_manifest(output, "", leaf)


@dataclass(frozen=True)
class Move:
    """One tensor's way to its place: `source` and `target` are alike in dtype, shape and the order of their bytes."""

    source: torch.Tensor
    target: torch.Tensor
    direct: bool
    """Whether the source's own memory has these bytes without gaps, from an address that the digest can read."""

    @property
    def span(self) -> Span:
        """Where the bytes lie, in the source's memory or, if that is not direct, in the target's."""
        held = self.source if self.direct else self.target
        return held.data_ptr(), self.target.nbytes

    def copy(self) -> None:
        self.target.copy_(self.source, non_blocking=True)


def moves(output: Output, placed: Sequence[Placement], arenas: Mapping[str, torch.Tensor]) -> list[Move]:
    """The way of every tensor to its place. Raises ContractError when the output is not of the agreed sizes."""
    if [size for _, _, size in placed] != list(output.sizes):
        raise ContractError("the output's size differs from the one returned before for the same shape")
    found = []
    for tensor, (arena, offset, size) in zip(output.tensors, placed, strict=True):
        source = as_bytes(tensor.detach())
        flat = arenas[arena][offset : offset + size].view(source.dtype)
        strides = dense_strides(source.shape, source.stride())
        target = flat.as_strided(source.shape, strides, flat.storage_offset())
        dense = all(n <= 1 or own == due for n, own, due in zip(source.shape, source.stride(), strides, strict=True))
        direct = dense and source.data_ptr() % ALIGNMENT == 0 and not (source.is_conj() or source.is_neg())
        found.append(Move(source, target, direct))
    return found

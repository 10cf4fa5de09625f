"""How inputs and outputs travel: a tree of plain values as JSON, and the bytes of its tensors' storages beside it.

Plain data are tensors, numbers, strings, booleans, None, and tuples, lists, dicts and dataclasses of them. A tensor
keeps its dtype, shape, strides, offset and the storage that it shares with others. Nothing is ever pickled.

A *manifest* is the JSON form of a tree. Its leaves for tensors are
`{"tensor": {"storage": i, "dtype": "float16", "shape": […], "strides": […], "offset": k}}` with strides and offset in
elements; the storages themselves are described beside it by `StorageSpec`s.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Manifest = Any  # JSON
NodePath = tuple[Any, ...]
"""The keys that lead to a node: of dicts and dataclasses, and places in lists and tuples."""
FindClass = Callable[[Manifest, NodePath], type]
ALIGNMENT = 256


class PackingError(Exception):
    """The tree holds something that is not plain data; the text says where."""


@dataclass(frozen=True)
class StorageSpec:
    """One storage: where it lives ("cpu" or "cuda"), its size, and the paths of the tensors that use it."""

    device: str
    nbytes: int
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Packed:
    """A tree taken apart: its manifest, its storages' specs, and each storage as a flat uint8 tensor."""

    manifest: Manifest
    specs: tuple[StorageSpec, ...]
    storages: tuple[torch.Tensor, ...]

    @property
    def nbytes(self) -> int:
        return sum(spec.nbytes for spec in self.specs)


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.float16` as `float16`."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """The dtype of that name. Raises PackingError for a name that is none."""
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype):
        raise PackingError(f"no dtype is named {name!r}")
    return dtype


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage under a tensor, as a flat uint8 tensor that shares its memory."""
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(storage, 0, (storage.nbytes(),), (1,))


def check_plain(tensor: torch.Tensor, path: str) -> None:
    """Raise PackingError unless it is a strided tensor, no subclass, in CPU or CUDA memory."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise PackingError(f"{where(path)} is a {type(tensor).__name__}, a subclass of Tensor")
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type not in ("cpu", "cuda"):
        raise PackingError(f"{where(path)} is not a plain strided tensor in CPU or CUDA memory")


def pack(tree: Any) -> Packed:
    """Take a tree apart. Raises PackingError naming the path of anything that is not plain data."""
    flats: dict[tuple[str, int], int] = {}
    storages: list[torch.Tensor] = []
    paths: list[list[str]] = []

    def tensor_leaf(tensor: torch.Tensor, path: str) -> Manifest:
        check_plain(tensor, path)
        key = (str(tensor.device), tensor.untyped_storage().data_ptr() or id(tensor.untyped_storage()))
        if key not in flats:
            flats[key] = len(storages)
            storages.append(storage_bytes(tensor))
            paths.append([])
        paths[flats[key]].append(path)
        return {
            "tensor": {
                "storage": flats[key],
                "dtype": dtype_name(tensor.dtype),
                "shape": list(tensor.shape),
                "strides": list(tensor.stride()),
                "offset": tensor.storage_offset(),
            }
        }

    manifest = to_manifest(tree, "", tensor_leaf)
    specs = tuple(
        StorageSpec(flat.device.type, flat.numel(), tuple(of)) for flat, of in zip(storages, paths, strict=True)
    )
    return Packed(manifest, specs, tuple(storages))


def where(path: str) -> str:
    """A path as a person reads it: `data[0][2]` for `0.2`, and `the value itself` at the root."""
    return "the value itself" if not path else "item " + path


def join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def to_manifest(node: Any, path: str, tensor_leaf: Callable[[torch.Tensor, str], Manifest]) -> Manifest:
    """The manifest of a tree whose root is at `path`; `tensor_leaf` gives that of a tensor.

    Raises PackingError naming the path of anything that is not plain data.
    """
    if isinstance(node, torch.Tensor):
        return tensor_leaf(node, path)
    if node is None or isinstance(node, bool | int | str):
        return {"value": node}
    if isinstance(node, float):
        return {"float": node.hex()}  # exact, and Infinity and NaN are not JSON
    if isinstance(node, torch.dtype | torch.device):
        return {type(node).__name__: dtype_name(node) if isinstance(node, torch.dtype) else str(node)}
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
        kind = f"{type(node).__module__}:{type(node).__qualname__}"
        return {"dataclass": kind, "items": {k: to_manifest(v, join(path, k), tensor_leaf) for k, v in fields.items()}}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        kind = f"{type(node).__module__}:{type(node).__qualname__}"
        return {"namedtuple": kind, "items": [to_manifest(v, join(path, i), tensor_leaf) for i, v in enumerate(node)]}
    if isinstance(node, tuple | list):
        kind = "tuple" if isinstance(node, tuple) else "list"
        return {kind: [to_manifest(v, join(path, i), tensor_leaf) for i, v in enumerate(node)]}
    if isinstance(node, dict):
        if not all(isinstance(key, str | int) for key in node):
            raise PackingError(f"{where(path)} is a dict whose keys are not all strings or integers")
        return {"dict": [[k, to_manifest(v, join(path, k), tensor_leaf)] for k, v in node.items()]}
    raise PackingError(f"{where(path)} is a {type(node).__name__}, which is not plain data")


def class_name(node: Manifest) -> str:
    """`module:Name` of a node that is a named tuple or a dataclass."""
    return str(node["namedtuple"] if "namedtuple" in node else node["dataclass"])


def no_classes(node: Manifest, path: NodePath) -> type:
    """The default of `unpack`: no class is known."""
    raise PackingError(f"the class {class_name(node)} is not known here")


def board_class(node: Manifest, path: NodePath) -> type:
    """The dataclass or named tuple of that name in a module that has been imported already, such as `task`.

    For the worker only: a manifest that comes from a worker must never choose what the supervisor instantiates.
    """
    kind = class_name(node)
    module_name, _, name = kind.partition(":")
    found = getattr(sys.modules.get(module_name), name, None)
    if isinstance(found, type) and (dataclasses.is_dataclass(found) or hasattr(found, "_fields")):
        return found
    raise PackingError(f"the class {kind} is not known here")


def unpack(manifest: Manifest, storages: Sequence[torch.Tensor], find_class: FindClass = no_classes) -> Any:
    """Put a tree together again over flat uint8 storages (views, not copies).

    `find_class` gives the class of a node that is a dataclass or a named tuple, from the node and the keys that lead to
    it. Raises PackingError for a manifest that does not fit the storages or is none.
    """
    try:
        return _unpack(manifest, storages, find_class, ())
    except (TypeError, ValueError, AttributeError, KeyError, RuntimeError) as error:  # torch's, and of recursion
        raise PackingError(f"not a manifest: {error}") from error


def _unpack(manifest: Manifest, storages: Sequence[torch.Tensor], find_class: FindClass, path: NodePath) -> Any:
    def again(node: Manifest, key: Any) -> Any:
        return _unpack(node, storages, find_class, (*path, key))

    def each(items: Any) -> list[Any]:
        return [again(item, i) for i, item in enumerate(items)]

    match manifest:
        case {"tensor": leaf}:
            return _tensor(leaf, storages)
        case {"value": value}:
            return value
        case {"float": text}:
            return float.fromhex(text)
        case {"dtype": name}:
            return dtype_of(name)
        case {"device": str(name)}:
            return torch.device(name)
        case {"dataclass": _, "items": items}:
            return find_class(manifest, path)(**{key: again(value, key) for key, value in items.items()})
        case {"namedtuple": _, "items": items}:
            return find_class(manifest, path)(*each(items))
        case {"tuple": items}:
            return tuple(each(items))
        case {"list": items}:
            return each(items)
        case {"dict": items}:
            return {key: again(value, key) for key, value in items}
    raise PackingError("not a manifest")


def _tensor(leaf: Any, storages: Sequence[torch.Tensor]) -> torch.Tensor:
    try:
        flat = storages[leaf["storage"]]
        dtype = dtype_of(leaf["dtype"])
        shape, strides, offset = tuple(leaf["shape"]), tuple(leaf["strides"]), leaf["offset"]
        reach = 0 if 0 in shape else offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if offset < 0 or min(strides, default=0) < 0 or reach * dtype.itemsize > flat.numel():
            raise PackingError("a tensor reaches beyond its storage")
        usable = flat.numel() // dtype.itemsize * dtype.itemsize
        typed = flat[:usable].view(dtype)
        # as_strided counts its offset from the start of the memory underneath, not of the view.
        return typed.as_strided(shape, strides, typed.storage_offset() + offset)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise PackingError(f"not a tensor's manifest: {error}") from error


def dense_sizes(manifest: Manifest) -> list[int]:
    """Bytes of every tensor of a manifest whose tensors each fill a storage of their own, in the storages' order.

    Raises PackingError for any other manifest.
    """
    sizes: dict[int, int] = {}

    def visit(node: Manifest) -> None:
        match node:
            case {"tensor": {"storage": int(i), "dtype": dtype, "shape": shape, "strides": strides, "offset": 0}}:
                dims = [int(n) for n in shape]
                if i in sizes or min(dims, default=0) < 0 or list(strides) != dense_strides(dims, strides):
                    raise PackingError("a tensor does not fill a storage of its own")
                sizes[i] = math.prod(dims) * dtype_of(dtype).itemsize
            case {"tensor": _}:
                raise PackingError("not a tensor's manifest")
            case {"dict": items}:
                for _, value in items:
                    visit(value)
            case {"items": dict(items)}:
                for value in items.values():
                    visit(value)
            case {"items": list(items)} | {"tuple": list(items)} | {"list": list(items)}:
                for value in items:
                    visit(value)

    try:
        visit(manifest)
        return [sizes[i] for i in range(len(sizes))]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise PackingError(f"not a manifest of dense tensors: {error}") from error


def dense_strides(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The strides, in elements, with which a copy of a tensor fills its memory without gaps: its own, where they do so
    in some order of the dimensions, else those of a contiguous tensor. Dimensions of 1 count as contiguous ones."""
    contiguous = _contiguous_strides(shape)
    expected = 1
    for i in sorted((i for i, n in enumerate(shape) if n > 1), key=lambda i: strides[i]):
        if strides[i] != expected:
            return contiguous
        expected *= shape[i]
    return [s if n > 1 else c for n, s, c in zip(shape, strides, contiguous, strict=True)]


def _contiguous_strides(shape: Sequence[int]) -> list[int]:
    """As torch has them: a dimension of 0 counts as 1."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1]


def layout(sizes: Sequence[int], start: int = 0) -> tuple[list[int], int]:
    """Offsets for blocks of these sizes one after another, aligned to 256 bytes, and the end of the last."""
    offsets = []
    for size in sizes:
        offsets.append(start)
        start += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, start


def tensor_leaves(tree: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a tree of plain data with its path."""
    found: list[tuple[str, torch.Tensor]] = []

    def keep(tensor: torch.Tensor, at: str) -> Manifest:
        found.append((at, tensor))
        return None

    to_manifest(tree, path, keep)
    yield from found


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor seen as uint8 where torch lacks copies or comparisons for its dtype (one-byte floats)."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor

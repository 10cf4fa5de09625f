"""What an operation of torch does, read from its schema, and the forms of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from harness.compiling.worker.tensors import inner_of


def bare(leaf: Any) -> Any:
    return inner_of(leaf) if isinstance(leaf, torch.Tensor) else leaf


def to_meta(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.device.type == "meta":
        return leaf
    storage = leaf.untyped_storage()
    flat = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta").untyped_storage()
    made = torch.empty(0, dtype=leaf.dtype, device="meta")
    return made.set_(flat, leaf.storage_offset(), leaf.shape, leaf.stride())


def written_by(func: Any, args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that an operation writes to, by its schema."""
    found: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            found += given if isinstance(given, list | tuple) else [given]
    return [each for each in found if isinstance(each, torch.Tensor)]


def computes(func: Any) -> bool:
    """Whether an operation would run a kernel: neither a view nor an allocation."""
    name = func._schema.name
    return not func.is_view and "empty" not in name and name not in ("aten::detach", "aten::alias", "aten::lift_fresh")


@functools.cache
def custom_op(func: Any) -> Callable[..., Any] | None:
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

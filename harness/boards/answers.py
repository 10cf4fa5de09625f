"""Wrong and rounded answers for `harness lint`: trees of tensors, changed in ways that a check must notice.

A *tree* is what a board's functions take and return: tensors, numbers and strings in tuples, lists, dicts and
dataclasses. Paths into it are those of `harness.yml`, e.g. `0.2`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from harness.wire.packing import tensor_leaves

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
"""From the most to the least accurate, by the relative error of one rounding."""

_OWN = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
_E4M3_MAX = 448.0


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """The tree with `function` applied to every tensor; all else is kept."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(function, item) for item in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(map_tensors(function, item) for item in tree)
    if isinstance(tree, dict):
        return {key: map_tensors(function, item) for key, item in tree.items()}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = {f.name: map_tensors(function, getattr(tree, f.name)) for f in dataclasses.fields(tree) if f.init}
        return dataclasses.replace(tree, **fields)
    return tree


def holds_classes(tree: Any) -> bool:
    """Whether there is a named tuple or a dataclass in it."""
    if isinstance(tree, dict):
        return any(map(holds_classes, tree.values()))
    if isinstance(tree, tuple | list):
        return hasattr(tree, "_fields") or any(map(holds_classes, tree))
    return dataclasses.is_dataclass(tree)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements seen as integers: every dtype has copies and comparisons for those, and NaN equals NaN."""
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor)
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize])


def clone(tree: Any) -> Any:
    """A copy with tensors of the same strides in memory of their own."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype.is_complex:
            return tensor.clone()
        raw = bits(tensor.detach())
        if 0 in raw.stride():  # expanded: its elements share memory
            return raw.clone().view(tensor.dtype)
        fresh = torch.empty_strided(raw.shape, raw.stride(), dtype=raw.dtype, device=raw.device)
        return fresh.copy_(raw).view(tensor.dtype)

    return map_tensors(copy, tree)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors agree in dtype, shape and every bit of their elements."""
    if left.dtype != right.dtype or left.shape != right.shape or left.device != right.device:
        return False
    return torch.equal(bits(left), bits(right))


def differing_paths(left: Any, right: Any) -> list[str]:
    """Paths of the tensors that differ, or that one tree has and the other has not."""
    ours, theirs = dict(tensor_leaves(left)), dict(tensor_leaves(right))
    return [
        path
        for path in {**ours, **theirs}
        if path not in ours or path not in theirs or not same_bits(ours[path], theirs[path])
    ]


def differs_in_bits(left: Any, right: Any) -> bool:
    return bool(differing_paths(left, right))


def form_differences(left: Any, right: Any) -> list[str]:
    """Paths whose tensors differ in dtype, shape, strides or device."""
    ours, theirs = dict(tensor_leaves(left)), dict(tensor_leaves(right))

    def form(tensor: torch.Tensor | None) -> Any:
        return tensor is not None and (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)

    return [path for path in {**ours, **theirs} if form(ours.get(path)) != form(theirs.get(path))]


@dataclass(frozen=True)
class Answer:
    """One candidate that the check is asked about. `of_input` says that it is the input's own memory."""

    name: str
    output: Any
    of_input: bool = False


def filled(right: Any, value: float) -> Any:
    """The right answer's form with every element `value`; NaN leaves integer tensors as they are."""

    def fill(tensor: torch.Tensor) -> torch.Tensor:
        if value != value and not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor.clone()
        return torch.full(tensor.shape, value, dtype=torch.float32, device=tensor.device).to(tensor.dtype)

    return map_tensors(fill, right)


def general_wrong_answers(data: Any, right: Any) -> Iterator[Answer]:
    """Zeros, ones, NaN; each tensor zero alone; inputs passed through; transposed. Right ones are left out.

    `data` is a copy that the caller gives away: passed-through answers are its own tensors, so that a check which
    compares the input's output buffer with itself is found out.
    """
    leaves = list(tensor_leaves(right))
    for name, value in (("zeros", 0.0), ("ones", 1.0), ("NaN", float("nan"))):
        yield Answer(name, filled(right, value))
    if len(leaves) > 1:
        for path, tensor in leaves[:16]:
            yield Answer(f"zeros in {path}", _with(right, path, filled(tensor, 0.0)))
    for name, output in _passed_through(data, right, leaves):
        if differs(output, right):
            yield Answer(name, output, of_input=True)
    swaps = sorted({pair for _, tensor in leaves for pair in _equal_neighbours(tensor)})
    for pair in swaps:
        output = map_tensors(partial(_transposed, pair), right)
        if differs(output, right):
            yield Answer(f"dimensions {pair[0]} and {pair[1]} swapped", output)


def differs(output: Any, right: Any) -> bool:
    """Whether an answer differs from the right one by more than rounding: else it is not wrong."""
    pairs = zip(tensor_leaves(output), tensor_leaves(right), strict=True)
    return any(_relative_difference(a, b) > _epsilon(b) for (_, a), (_, b) in pairs)


def _relative_difference(left: torch.Tensor, right: torch.Tensor) -> float:
    if same_bits(left, right):
        return 0.0
    if not right.is_floating_point():
        return 1.0
    wide = torch.promote_types(right.dtype, torch.float32) if right.dtype.itemsize > 1 else torch.float32
    a, b = left.to(wide), right.to(wide)
    scale = float(b.abs().amax()) if b.numel() else 0.0
    difference = float(torch.sub(a, b).abs_().amax()) if b.numel() else 0.0
    return difference / scale if scale else float(difference > 0)


def _epsilon(tensor: torch.Tensor) -> float:
    return torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0


def _with(tree: Any, path: str, replacement: torch.Tensor) -> Any:
    old = dict(tensor_leaves(tree))[path]
    return map_tensors(lambda tensor: replacement if tensor is old else tensor, tree)


def _passed_through(data: Any, right: Any, leaves: list[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, Any]]:
    """Answers made of the input's tensors alone, where their dtypes and shapes fit."""

    def fits(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        return [(p, t) for p, t in tensor_leaves(data) if t.shape == tensor.shape and t.dtype == tensor.dtype]

    if len(leaves) == 1:
        for path, given in fits(leaves[0][1]):
            yield f"input {path or 'data'} passed through", _with(right, leaves[0][0], given)
        return
    taken: set[str] = set()
    chosen: list[torch.Tensor] = []
    for _, tensor in leaves:
        free = [(path, given) for path, given in fits(tensor) if path not in taken]
        if not free:
            return
        taken.add(free[0][0])
        chosen.append(free[0][1])
    if chosen:
        rest = iter(chosen)
        yield "inputs passed through", map_tensors(lambda _: next(rest), right)


def _equal_neighbours(tensor: torch.Tensor) -> list[tuple[int, int]]:
    return [
        (i, i + 1) for i in range(tensor.dim() - 1) if tensor.shape[i] == tensor.shape[i + 1] and tensor.shape[i] > 1
    ]


def _transposed(pair: tuple[int, int], tensor: torch.Tensor) -> torch.Tensor:
    return clone(tensor.transpose(*pair)).contiguous() if pair in _equal_neighbours(tensor) else tensor.clone()


def own_precision(tree: Any) -> str:
    """The precision of a tree's least accurate floating-point tensor, or an empty string where it has none."""
    names = [_OWN[tensor.dtype] for _, tensor in tensor_leaves(tree) if tensor.dtype in _OWN]
    return max(names, key=PRECISIONS.index, default="")


def round_through(tree: Any, precision: str) -> Any:
    """The tree with every floating-point tensor of two bytes or more rounded to `precision` and put back.

    fp8 is e4m3 with one power-of-two scale a tensor, as a careful kernel would do it.
    """

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in _OWN:
            return tensor.clone()
        if precision == "fp64":
            return tensor.clone()
        wide = tensor.float()
        if precision == "fp32":
            low = wide
        elif precision == "tf32":
            bits = wide.contiguous().view(torch.int32)
            low = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
        elif precision == "fp8":
            low = _through_e4m3(wide)
        else:
            low = wide.to(torch.float16 if precision == "fp16" else torch.bfloat16).float()
        return clone(tensor).copy_(low)

    return map_tensors(rounded, tree)


def _through_e4m3(wide: torch.Tensor) -> torch.Tensor:
    finite = wide[wide.isfinite()].abs()
    largest = float(finite.amax()) if finite.numel() else 0.0
    if largest == 0:
        return wide
    scale = 2.0 ** int(torch.tensor(_E4M3_MAX / largest, dtype=torch.float64).log2().floor())
    return (wide * scale).to(torch.float8_e4m3fn).float() / scale

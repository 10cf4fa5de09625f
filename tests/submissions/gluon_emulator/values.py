"""What is in registers, pointers to global memory, and the arithmetic of the language (its API: `gluon.language`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

INT32 = 2**31


class Constant(int):
    """`gl.constexpr` of an integer."""

    value = property(int)


class Value:
    """A tensor or a scalar of a kernel; scalars are Python's numbers where that is all that they need.

    Integers have 32 bits unless they were made wider by `.to(gl.int64)`, whatever holds them here. Bits of a float
    (`gl.uint32`) are held as torch.int32.
    """

    type = SimpleNamespace(layout=None)

    def __init__(self, data: Any, *, wide: bool = False) -> None:
        self.data, self.wide = data, wide
        if not wide:
            if isinstance(data, int):
                assert -INT32 <= data < INT32, "an integer leaves 32 bits"
            elif isinstance(data, torch.Tensor) and data.dtype == torch.int64:
                least, most = data.aminmax()
                assert -INT32 <= least <= most < INT32, "an integer leaves 32 bits"

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    def _with(self, other: Any, function: Callable[[Any, Any], Any]) -> Value:
        if isinstance(other, Value):
            return Value(function(self.data, other.data), wide=self.wide or other.wide)
        return Value(function(self.data, other), wide=self.wide)

    def __add__(self, other: Any) -> Value:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Value:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: y - x)

    def __mul__(self, other: Any) -> Value:
        return self._with(other, operator.mul)

    def __floordiv__(self, other: Any) -> Value:
        return self._with(other, quotient)

    def __mod__(self, other: Any) -> Value:
        return self._with(other, remainder)

    def __rfloordiv__(self, other: int) -> Value:
        return Value(other) // self

    def __rmod__(self, other: int) -> Value:
        return Value(other) % self

    def __and__(self, other: Any) -> Value:
        return self._with(other, operator.and_)

    def __lt__(self, other: Any) -> Value:
        return self._with(other, operator.lt)

    def __le__(self, other: Any) -> Value:
        return self._with(other, operator.le)

    def __gt__(self, other: Any) -> Value:
        return self._with(other, operator.gt)

    def __ge__(self, other: Any) -> Value:
        return self._with(other, operator.ge)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self._with(other, operator.eq)

    __radd__, __rmul__, __rand__, __hash__ = __add__, __mul__, __and__, None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Value:
        return Value(self.data[index], wide=self.wide)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return int(self.data)

    def to(self, dtype: torch.dtype, bitcast: bool = False) -> Value:
        if bitcast:
            return Value(self.data.contiguous().view(dtype))
        assert dtype is torch.int64
        return Value(self.data, wide=True)

    def reshape(self, shape: Sequence[int]) -> Value:
        return Value(self.data.reshape(shape))

    def permute(self, order: Sequence[int]) -> Value:
        return Value(self.data.permute(order))


def quotient(x: int, y: int) -> int:
    """Toward zero, as Triton divides integers ("Triton Semantics")."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int:
    return x - quotient(x, y) * y


class Pointer:
    """Into a tensor: one address, or a block of them. Addresses have 64 bits."""

    def __init__(self, tensor: torch.Tensor, offset: Value) -> None:
        assert tensor.is_contiguous()
        self.tensor, self.offset = tensor.view(-1), offset

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.tensor, self.offset + offset)

    def at(self, mask: Value | None) -> tuple[torch.Tensor, torch.Tensor]:
        """The addresses, zero where masked out, and the mask."""
        inside = torch.as_tensor(True if mask is None else mask.data)
        offset, inside = torch.broadcast_tensors(torch.as_tensor(self.offset.data), inside)
        offset = torch.where(inside, offset, 0)
        least, most = offset.aminmax()
        assert 0 <= least <= most < len(self.tensor), "an address outside its tensor"
        return offset, inside


def load(pointer: Pointer, mask: Value | None = None, other: Any = torch.nan) -> Value:
    """What is masked out is undefined where nothing is said of it: NaN."""
    offset, inside = pointer.at(mask)
    return Value(torch.where(inside, pointer.tensor[offset], _data(other)))


def store(pointer: Pointer, value: Value, mask: Value | None = None) -> None:
    offset, inside = pointer.at(mask)
    pointer.tensor[offset[inside]] = value.data.expand(offset.shape)[inside]


def _data(x: Any) -> Any:
    return x.data if isinstance(x, Value) else x


def where(condition: Value, x: Any, y: Any) -> Value:
    return Value(torch.where(condition.data, _data(x), _data(y)))


def arange(start: int, end: int, layout: object = None) -> Value:
    return Value(torch.arange(start, end))


def zeros(shape: Sequence[int], dtype: torch.dtype, layout: object = None) -> Value:
    return Value(torch.zeros(shape, dtype=dtype))


def cdiv(x: Any, y: int) -> Any:
    return (x + (y - 1)) // y


def minimum(x: Any, y: Any) -> Value:
    """Of scalars."""
    return Value(min(int(x), int(y)))


def sum(x: Value, axis: int) -> Value:
    return Value(x.data.sum(axis))


def reduce_or(x: Value, axis: int) -> Value:
    return Value(torch.as_tensor(np.bitwise_or.reduce(x.data.numpy(), axis)))


def rsqrt(x: Value) -> Value:
    return Value(x.data.rsqrt())


def convert_layout(x: Value, layout: object) -> Value:
    return x


def split(x: Value) -> tuple[Value, Value]:
    first, second = x.data.unbind(-1)
    return Value(first), Value(second)


def dot_fma(a: Value, b: Value, c: Value) -> Value:
    return Value(c.data + a.data @ b.data)


def inline_asm_elementwise(asm: str, constraints: str, args: list[Value], *_: object, **__: object) -> Value:
    """`cvt.rna.tf32.f32` of PTX: to the nearest number of TF32, ties away from zero; infinities and NaN stay."""
    assert asm == "cvt.rna.tf32.f32 $0, $1;"
    x = args[0].data
    bits = (x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
    return Value(torch.where(x.isfinite(), bits.view(torch.float32), x))


def is_tf32(x: torch.Tensor) -> bool:
    """Whether these are numbers of TF32, whose last thirteen bits are zero. NaN may be any."""
    zero = (x.contiguous().view(torch.int32) & 0x1FFF) == 0
    return bool(zero.all()) or bool((zero | x.isnan()).all())

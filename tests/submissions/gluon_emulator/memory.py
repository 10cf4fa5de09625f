"""Shared memory, and the tensor memory of Blackwell (`gl.shared_memory_descriptor`, `tensor_memory_descriptor`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluon_emulator.barriers import Barrier, Barriers
from gluon_emulator.block import Block, Region
from gluon_emulator.values import Value

LANES = 128
COLUMNS = 512
"""Of tensor memory (tutorial "The 5th Generation TensorCore")."""


class Shared:
    """A view of an allocation. Views have their elements next to one another, in whatever order."""

    layout = None

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    @property
    def region(self) -> Region:
        first = self.data.data_ptr()
        return Region("shared", first, first + self.data.nbytes - 1)

    def index(self, index: Any) -> Shared:
        assert 0 <= int(index) < self.shape[0], "an index outside its allocation"
        return Shared(self.data[int(index)])

    def slice(self, start: int, length: int) -> Shared:
        """Along the first dimension."""
        assert type(start) is int, "slices begin at constants"
        assert 0 <= start <= self.shape[0] - length, "a slice outside its allocation"
        return Shared(self.data[start : start + length])

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.data.permute(tuple(order)))

    def _reinterpret(self, dtype: torch.dtype, shape: Sequence[int], layout: object) -> Shared:
        assert dtype is torch.float32
        return Shared(self.data.view(*shape))

    def load(self, layout: object) -> Value:
        Block.running.use(self)
        return Value(self.data.clone())

    def store(self, value: Value) -> None:
        assert value.shape == self.shape
        Block.running.use(self, writes=True)
        Block.running.current.unfenced.add(self.region)
        self.data.copy_(value.data)


def allocate_shared_memory(dtype: torch.dtype, shape: Sequence[int], layout: object) -> Shared | Barrier | Barriers:
    """Numbers of 64 bits are barriers here: one, or several of shape [1]."""
    if dtype is torch.int64:
        return Barriers(shape[0]) if len(shape) == 2 else Barrier()
    data = torch.full(tuple(shape), torch.nan)
    Block.running.allocations.append(data)
    return Shared(data)


def fence_async_shared() -> None:
    """What this partition stored can be seen by TMA and tensor cores from now on."""
    Block.running.current.unfenced.clear()


class TensorMemory:
    """`count` tensors of rows × width from a column on: 128 rows a lane each, and the next 128 rows beside them."""

    def __init__(self, start: int, count: int, rows: int, width: int) -> None:
        self.start, self.count, self.rows, self.width = start, count, rows, width
        self.columns = width * rows // LANES
        """Of one of them."""

    @property
    def region(self) -> Region:
        return Region("tensor", self.start, self.start + self.count * self.columns - 1)

    @property
    def blocks(self) -> list[torch.Tensor]:
        assert self.count == 1
        return list(Block.running.tensor_memory[:, self.start : self.start + self.columns].split(self.width, dim=1))

    def index(self, index: Any) -> TensorMemory:
        assert 0 <= int(index) < self.count, "an index outside its allocation"
        return TensorMemory(self.start + int(index) * self.columns, 1, self.rows, self.width)

    def slice(self, start: int, length: int) -> TensorMemory:
        """Along the columns."""
        assert (self.count, self.rows) == (1, LANES)
        assert 0 <= start <= self.width - length, "a slice outside its allocation"
        return TensorMemory(self.start + start, 1, self.rows, length)

    def _reinterpret(self, dtype: torch.dtype, shape: Sequence[int], layout: object) -> TensorMemory:
        count, rows, width = shape
        assert rows * width * count == self.rows * self.width * self.count
        return TensorMemory(self.start, count, rows, width)

    def load(self, layout: object) -> Value:
        Block.running.use(self)
        return Value(torch.cat(self.blocks))

    def accumulate(self, product: torch.Tensor, use_acc: bool) -> None:
        for block, part in zip(self.blocks, product.split(LANES), strict=True):
            block.copy_(block + part if use_acc else part)


def allocate_tensor_memory(dtype: torch.dtype, shape: Sequence[int], layout: object) -> TensorMemory:
    block = Block.running
    count, rows, width = [1, *shape][-3:]
    made = TensorMemory(block.columns, count, rows, width)
    block.columns += count * made.columns
    assert block.columns <= COLUMNS, "more tensor memory than there is"
    if block.tensor_memory is None:
        block.tensor_memory = torch.full((LANES, COLUMNS), torch.nan)
    return made

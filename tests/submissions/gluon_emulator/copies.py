"""Asynchronous copies: `tma` of Hopper and Blackwell, and `cp.async`, Ampere's `async_copy`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from gluon_emulator.barriers import Barrier
from gluon_emulator.block import Block, Operation
from gluon_emulator.memory import Shared
from gluon_emulator.values import Pointer, Value, load


class TensorDescriptor:
    """A tensor map of a matrix (tutorial "TMA in Gluon"; cuTensorMapEncodeTiled has the rules that are asserted)."""

    def __init__(self, base: torch.Tensor, block_shape: list[int], layout: object) -> None:
        rows, columns = block_shape
        assert base.stride(1) == 1
        assert base.data_ptr() % 16 == base.stride(0) % 4 == 0, "TMA needs rows that begin at sixteen bytes"
        assert max(rows, columns) <= 256
        assert columns % 4 == 0
        self.base, self.layout = base, layout
        self.block_type = SimpleNamespace(shape=block_shape, nbytes=4 * math.prod(block_shape))

    @staticmethod
    def from_tensor(tensor: torch.Tensor, block_shape: list[int], layout: object) -> TensorDescriptor:
        return TensorDescriptor(tensor, block_shape, layout)

    def box(self, corner: Sequence[Any], buffer: Shared) -> torch.Tensor:
        """What is inside: beyond the right and the lower end zeros are read, and what is written is dropped."""
        row, column = (int(x) for x in corner)
        rows, columns = self.block_type.shape
        assert buffer.shape == [rows, columns], "a buffer that is not as large as the box"
        assert min(row, column) >= 0, "a box before its tensor"
        assert column % 4 == 0, "TMA needs columns that begin at sixteen bytes"
        return self.base[row : row + rows, column : column + columns]


def tma_load(
    descriptor: TensorDescriptor, corner: Sequence[Any], barrier: Barrier, buffer: Shared, pred: Any = True
) -> None:
    """`tma.async_copy_global_to_shared`: its bytes arrive at the barrier."""
    if not pred:
        return
    box = descriptor.box(corner, buffer)

    def copy() -> None:
        buffer.data.zero_()
        buffer.data[: box.shape[0], : box.shape[1]] = box
        barrier.receive(descriptor.block_type.nbytes)

    Block.running.check_fenced(buffer.region)
    Block.running.issue(Operation(copy, writes=[buffer.region]))


def tma_store(descriptor: TensorDescriptor, corner: Sequence[Any], buffer: Shared) -> None:
    """`tma.async_copy_shared_to_global`: reads its buffer first, and writes later still. A group of its own."""
    block = Block.running
    box = descriptor.box(corner, buffer)

    def read() -> None:
        found = buffer.data[: box.shape[0], : box.shape[1]].clone()
        block.flying.append(Operation(lambda: box.copy_(found)))

    block.check_fenced(buffer.region)
    block.commit("stores", [block.issue(Operation(read, reads=[buffer.region]))])


def store_wait(outstanding: int) -> None:
    """Until the buffers of all stores of this partition have been read, but for the last few."""
    Block.running.wait_group("stores", outstanding)


def cp_async(buffer: Shared, pointer: Pointer, mask: Value | None = None) -> None:
    """`async_copy.async_copy_global_to_shared`: with zeros where masked out."""
    assert buffer.shape == list(pointer.at(mask)[0].shape)
    block = Block.running
    started = block.issue(Operation(lambda: buffer.data.copy_(load(pointer, mask, 0.0).data), writes=[buffer.region]))
    block.current.open_group.append(started)


def commit_group() -> None:
    block = Block.running
    block.commit("copies", block.current.open_group)
    block.current.open_group = []


def wait_group(outstanding: int) -> None:
    Block.running.wait_group("copies", outstanding)

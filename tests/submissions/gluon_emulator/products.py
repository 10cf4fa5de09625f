"""Asynchronous products of tensor cores: Hopper's `warpgroup_mma` and Blackwell's `tcgen05_mma`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluon_emulator.barriers import Barrier
from gluon_emulator.block import Block, Operation
from gluon_emulator.memory import Shared, TensorMemory
from gluon_emulator.values import Value, is_tf32


def _product(a: Shared, b: Shared) -> torch.Tensor:
    for operand in (a, b):
        assert is_tf32(operand.data), "an operand of a product is no number of TF32"
    return a.data @ b.data


def _check_fenced(a: Shared, b: Shared) -> None:
    for operand in (a, b):
        Block.running.check_fenced(operand.region)


class Accumulator:
    """A sum of `warpgroup_mma`, and its products that nobody has waited for (tutorial "Warp-Group MMA")."""

    def __init__(self, total: torch.Tensor, products: list[Operation]) -> None:
        self.total, self.products = total, products


def warpgroup_mma(a: Shared, b: Shared, total: Value | Accumulator, *, is_async: bool = False) -> Accumulator:
    """Every product is a group of its own."""
    assert is_async
    block = Block.running
    _check_fenced(a, b)
    product = Operation(lambda: _product(a, b), reads=[a.region, b.region], pipe=(block.current, "wgmma"))
    block.commit("wgmma", [block.issue(product)])
    if isinstance(total, Value):
        return Accumulator(total.data, [product])
    return Accumulator(total.total, [*total.products, product])


def warpgroup_mma_wait(num_outstanding: int, deps: Sequence[Accumulator | Value]) -> Accumulator | Value:
    """A sum can be used as a value once all of its products have been waited for."""
    Block.running.wait_group("wgmma", num_outstanding)
    (sum,) = deps
    if isinstance(sum, Value):
        return sum
    waited = max(len(sum.products) - num_outstanding, 0)
    total = sum.total
    for product in sum.products[:waited]:
        total = total + product.result
    return Accumulator(total, sum.products[waited:]) if num_outstanding else Value(total)


def tcgen05_mma(a: Shared, b: Shared, total: TensorMemory, *, use_acc: Any = True) -> None:
    """In the order in which a partition issues them (tutorial "The 5th Generation TensorCore")."""
    _check_fenced(a, b)
    Block.running.issue(
        Operation(
            lambda: total.accumulate(_product(a, b), bool(use_acc)),
            reads=[a.region, b.region],
            writes=[total.region],
            pipe=(Block.running.current, "tcgen05"),
        )
    )


def tcgen05_commit(barrier: Barrier) -> None:
    """An arrival when all products before it, of this partition, are done."""
    Block.running.issue(Operation(barrier.arrive, pipe=(Block.running.current, "tcgen05")))

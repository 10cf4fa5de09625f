"""Runs Gluon kernels on the CPU: a small `gluon` whose tensors are torch's, for what the submissions here use of it.

Gluon has no interpreter, but a kernel's source is Python. `load_gluon` loads a submission with this module in place of
Triton's, and its kernels then run as they are written, one program after another. Layouts have no meaning; everything
else is held to its contract:

- addresses: a load or store outside its tensor fails, as do 32-bit offsets that leave 32 bits;
- shared memory and registers that nobody wrote hold NaN;
- asynchronous work (TMA, `cp.async`, `wgmma`) is done when it is issued or, with `lazy`, when somebody waits for it, so
  that a result read too early and a buffer given back too early both show;
- partitions are threads, and their mbarriers have phases, counts and bytes; a wait that nobody ends is a deadlock;
- operands of `wgmma` must be tf32 numbers already.

Sums are torch's, rounded where a tensor core would truncate.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import torch
from emulated import load_submission

PATIENCE_S = 20.0
INT32 = 2**31


class Machine:
    """What is the same for all threads of a program."""

    lazy = False
    program = 0
    programs = 1
    changed = threading.Condition()
    copies: ClassVar[list[list[Callable[[], None]]]] = [[]]
    """`cp.async`: groups, the last one open."""


class Value:
    """A tensor or scalar of a kernel. Integers have 32 bits unless made wider, whatever holds them here."""

    def __init__(self, data: Any, *, wide: bool = False) -> None:
        self.data = torch.as_tensor(data)
        self.wide = wide
        if self.data.dtype in (torch.int32, torch.int64):
            self.data = self.data.long()
            assert wide or bool((self.data.abs() < INT32).all()), "an offset leaves 32 bits"

    type = SimpleNamespace(layout=None)

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    def _with(self, other: Any, function: Callable[[Any, Any], Any]) -> Value:
        wide = self.wide or (isinstance(other, Value) and other.wide)
        return Value(function(self.data, other.data if isinstance(other, Value) else other), wide=wide)

    def _divided(self, other: Any, function: Callable[[Any, Any], Any]) -> Value:
        assert bool((self.data >= 0).all())
        return self._with(other, function)

    def __add__(self, other: Any) -> Any:
        return other + self if isinstance(other, Pointer) else self._with(other, lambda x, y: x + y)

    def __sub__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x - y)

    def __rsub__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: y - x)

    def __mul__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x * y)

    def __floordiv__(self, other: Any) -> Value:
        return self._divided(other, lambda x, y: x // y)

    def __mod__(self, other: Any) -> Value:
        return self._divided(other, lambda x, y: x % y)

    def __rfloordiv__(self, other: int) -> Value:
        return Value(other) // self

    def __rmod__(self, other: int) -> Value:
        return Value(other) % self

    def __and__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x & y)

    def __lt__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x < y)

    def __le__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x <= y)

    def __gt__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x > y)

    def __ge__(self, other: Any) -> Value:
        return self._with(other, lambda x, y: x >= y)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self._with(other, lambda x, y: x == y)

    __radd__, __rmul__, __hash__ = __add__, __mul__, None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Value:
        return Value(self.data[index], wide=self.wide)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return int(self.data)

    def to(self, kind: str) -> Value:
        assert kind == "int64"
        return Value(self.data, wide=True)

    def reshape(self, shape: Sequence[int]) -> Value:
        return Value(self.data.reshape(shape))

    def permute(self, order: Sequence[int]) -> Value:
        return Value(self.data.permute(order))


class Pointer:
    """Into a tensor: one address, or a block of them."""

    def __init__(self, tensor: torch.Tensor, offset: Value) -> None:
        assert tensor.is_contiguous()
        self.tensor, self.offset = tensor.view(-1), offset

    def __add__(self, offset: Any) -> Pointer:
        # The sum is an address: 64 bits.
        return Pointer(self.tensor, self.offset + (offset if isinstance(offset, Value) else Value(offset)))

    def at(self, mask: Value | None) -> tuple[torch.Tensor, torch.Tensor]:
        """The addresses, zero where masked out, and the mask."""
        given = torch.tensor(True) if mask is None else mask.data
        offset, inside = torch.broadcast_tensors(self.offset.data, given)
        offset = torch.where(inside, offset, 0)
        assert bool(((offset >= 0) & (offset < len(self.tensor))).all()), "an address outside its tensor"
        return offset, inside


class Shared:
    """A view of shared memory; `data` is a view of the allocation's storage."""

    layout = None

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    def index(self, index: Any) -> Shared:
        assert 0 <= int(index) < self.shape[0]
        return Shared(self.data[int(index)])

    def slice(self, start: int, length: int, dim: int = 0) -> Shared:
        assert type(start) is int
        assert start + length <= self.shape[dim]
        return Shared(self.data.narrow(dim, start, length))

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.data.permute(tuple(order)))

    def _reinterpret(self, kind: str, shape: Sequence[int], _layout: Any) -> Shared:
        assert kind == "float32"
        return Shared(self.data.view(*shape))

    def load(self, _layout: Any) -> Value:
        return Value(self.data.clone())

    def store(self, value: Value) -> None:
        assert value.shape == self.shape
        self.data.copy_(value.data)


class Barrier:
    """An mbarrier, or several."""

    def __init__(self, count: int) -> None:
        self.each = [self] if count == 1 else [Barrier(1) for _ in range(count)]
        self.count = 0
        self.arrivals = self.bytes = self.phase = 0
        self.copies: list[Callable[[], None]] = []

    def index(self, index: Any) -> Barrier:
        return self.each[int(index)]

    def settle(self) -> None:
        assert self.arrivals <= self.count, "more arrivals at an mbarrier than it counts"
        if self.arrivals == self.count and self.bytes == 0:
            self.arrivals, self.phase = 0, self.phase ^ 1
            Machine.changed.notify_all()


def init(barrier: Barrier, count: int) -> None:
    barrier.count = count


def arrive(barrier: Barrier, *, count: int = 1, pred: Any = True) -> None:
    with Machine.changed:
        if pred:
            barrier.arrivals += count
            barrier.settle()


def expect(barrier: Barrier, size: int, pred: Any = True) -> None:
    with Machine.changed:
        if pred:
            barrier.arrivals += 1
            barrier.bytes += size
            barrier.settle()


def wait(barrier: Barrier, phase: Any, pred: Any = True, deps: Any = ()) -> None:
    with Machine.changed:
        while pred and barrier.phase == int(phase):
            if barrier.copies:
                barrier.copies.pop(0)()
            elif not Machine.changed.wait(PATIENCE_S):
                raise RuntimeError("deadlock: nobody ends a wait")


class Descriptor:
    """A TensorDescriptor of a matrix."""

    def __init__(self, tensor: torch.Tensor, box: list[int]) -> None:
        assert tensor.stride(1) == 1
        assert tensor.stride(0) % 4 == 0, "TMA needs rows of a multiple of sixteen bytes"
        assert max(box) <= 256
        self.tensor = tensor
        self.block_type = SimpleNamespace(shape=box, nbytes=4 * math.prod(box))

    layout = None

    @staticmethod
    def from_tensor(tensor: torch.Tensor, box: list[int], _layout: Any) -> Descriptor:
        return Descriptor(tensor, box)


def tma_load(descriptor: Descriptor, corner: Sequence[Any], barrier: Barrier, buffer: Shared) -> None:
    row, column = (int(x) for x in corner)
    rows, columns = descriptor.block_type.shape
    assert buffer.shape == [rows, columns]

    def copy() -> None:
        found = descriptor.tensor[row : row + rows, column : column + columns]
        buffer.data.zero_()
        buffer.data[: found.shape[0], : found.shape[1]] = found
        barrier.bytes -= descriptor.block_type.nbytes
        barrier.settle()

    with Machine.changed:
        if Machine.lazy:
            barrier.copies.append(copy)
            Machine.changed.notify_all()
        else:
            copy()


def cp_async(buffer: Shared, pointer: Pointer, mask: Value | None = None) -> None:
    def copy() -> None:
        buffer.store(load(pointer, mask=mask, other=0.0))

    if Machine.lazy:
        Machine.copies[-1].append(copy)
    else:
        copy()


def commit_group() -> None:
    Machine.copies.append([])


def wait_group(outstanding: int) -> None:
    while len(Machine.copies) - 1 > outstanding:
        for copy in Machine.copies.pop(0):
            copy()


class Products:
    """A sum with products of `wgmma` in flight."""

    def __init__(self, total: torch.Tensor, flying: list[tuple[Shared, Shared]]) -> None:
        self.total, self.flying = total, flying

    def land(self, outstanding: int) -> Products:
        flying = list(self.flying)
        total = self.total
        while len(flying) > outstanding:
            a, b = (x.data for x in flying.pop(0))
            for x in (a, b):
                tf32 = (x.contiguous().view(torch.int32) & 0x1FFF) == 0
                assert bool((tf32 | x.isnan()).all()), "an operand of wgmma is no tf32 number"
            total = total + a @ b
        return Products(total, flying)


def warpgroup_mma(a: Shared, b: Shared, total: Any, *, is_async: bool = False) -> Products:
    assert is_async
    flying = total if isinstance(total, Products) else Products(total.data, [])
    flying = Products(flying.total, [*flying.flying, (a, b)])
    return flying if Machine.lazy else flying.land(0)


def warpgroup_mma_wait(outstanding: int = 0, deps: Sequence[Products | Value] = ()) -> Any:
    (products,) = deps
    if isinstance(products, Value):
        return products
    landed = products.land(outstanding)
    return landed if landed.flying else Value(landed.total)


def nearest_tf32(x: torch.Tensor) -> torch.Tensor:
    bits = (x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
    return torch.where(x.isfinite(), bits.view(torch.float32), x)


def inline_asm(asm: str, _constraints: str, args: list[Value], *_: Any, **__: Any) -> Value:
    assert asm.startswith("cvt.rna.tf32.f32")
    return Value(nearest_tf32(args[0].data))


def load(pointer: Pointer, mask: Value | None = None, other: float | None = None) -> Value:
    offset, inside = pointer.at(mask)
    found = pointer.tensor[offset]
    return Value(torch.where(inside, found, torch.nan if other is None else other))


def store(pointer: Pointer, value: Value, mask: Value | None = None) -> None:
    offset, inside = pointer.at(mask)
    pointer.tensor[offset[inside]] = value.data.expand(offset.shape)[inside]


def where(condition: Value, x: Any, y: Any) -> Value:
    x, y = (v.data if isinstance(v, Value) else torch.tensor(v) for v in (x, y))
    return Value(torch.where(condition.data, x, y))


def allocate_shared_memory(kind: str, shape: Sequence[int], _layout: Any) -> Shared | Barrier:
    return Barrier(shape[0]) if kind == "int64" else Shared(torch.full(tuple(shape), torch.nan))


def warp_specialize(partitions: list[tuple[Callable[..., None], tuple[Any, ...]]], *_: Any) -> None:
    """Every partition is a thread; what one of them raises is raised here."""
    raised: list[BaseException] = []

    def run(function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            function(*arguments)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=partition, daemon=True) for partition in partitions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


class Kernel:
    """What `jit` makes: a function for kernels to call, and a kernel to launch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        taken = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]

        def launch(*arguments: Any, **constants: Any) -> None:
            known = {name: value for name, value in constants.items() if name in taken}
            Machine.programs = grid[0]
            for Machine.program in range(grid[0]):
                Machine.copies = [[]]
                self.function(*(_passed(x) for x in arguments), **known)
                assert not any(Machine.copies), "cp.async is still going on at the end"

        return launch


def jit(function: Callable[..., Any] | None = None, **_options: Any) -> Any:
    return Kernel if function is None else Kernel(function)


def _passed(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return Pointer(argument, Value(0, wide=True))
    return Value(argument) if type(argument) is int else argument


def _none(*_: Any, **__: Any) -> None:
    """A layout."""


def language() -> ModuleType:
    module = ModuleType("triton.experimental.gluon.language")
    module.__dict__.update(
        constexpr=int, float32="float32", int64="int64", static_range=range,
        BlockedLayout=_none, SliceLayout=_none, DotOperandLayout=_none, SwizzledSharedLayout=_none,
        NVMMADistributedLayout=_none, NVMMASharedLayout=SimpleNamespace(get_default_for=_none),
        arange=lambda start, end, layout=None: Value(torch.arange(start, end)),
        zeros=lambda shape, kind, layout=None: Value(torch.zeros(shape)),
        cdiv=lambda x, y: (x + (y - 1)) // y,
        minimum=lambda x, y: Value(torch.minimum(torch.as_tensor(int(x)), torch.as_tensor(int(y)))),
        sum=lambda x, axis: Value(x.data.sum(axis)),
        rsqrt=lambda x: Value(x.data.rsqrt()),
        convert_layout=lambda x, layout: x,
        split=lambda x: (Value(x.data[..., 0]), Value(x.data[..., 1])),
        dot_fma=lambda a, b, c: Value(c.data + a.data @ b.data),
        program_id=lambda axis: Value(Machine.program),
        num_programs=lambda axis: Value(Machine.programs),
        inline_asm_elementwise=inline_asm, load=load, store=store, where=where,
        allocate_shared_memory=allocate_shared_memory, warp_specialize=warp_specialize,
    )  # fmt: skip
    return module


def modules() -> dict[str, ModuleType]:
    """`sys.modules` of a submission: Gluon by this module, and nothing of Triton but `cdiv`."""

    def module(name: str, **names: Any) -> ModuleType:
        made = ModuleType(name)
        made.__dict__.update(names)
        return made

    gluon = module("gluon", jit=jit, constexpr_function=lambda f: f, language=language())
    barriers = module("mbarrier", init=init, arrive=arrive, expect=expect, wait=wait, MBarrierLayout=_none)
    copies = module("cp", async_copy_global_to_shared=cp_async, commit_group=commit_group, wait_group=wait_group)
    hopper = {
        "mbarrier": barriers,
        "tma": module("tma", async_copy_global_to_shared=tma_load),
        "fence_async_shared": _none,
        "warpgroup_mma": warpgroup_mma,
        "warpgroup_mma_wait": warpgroup_mma_wait,
    }
    base = "triton.experimental.gluon"
    return {
        "triton": module("triton", cdiv=lambda x, y: -(-x // y)),
        "triton.experimental": module("triton.experimental", gluon=gluon),
        base: gluon,
        f"{base}.language": gluon.language,
        f"{base}.language.nvidia": module("nvidia"),
        f"{base}.language.nvidia.ampere": module("ampere", async_copy=copies),
        f"{base}.language.nvidia.hopper": module("hopper", **hopper),
        f"{base}.nvidia": module("nvidia"),
        f"{base}.nvidia.hopper": module("hopper", TensorDescriptor=Descriptor),
    }


def load_gluon(board: str, file: str) -> ModuleType:
    """A submission whose kernels run here."""
    given = modules()
    kept = {name: sys.modules.get(name) for name in given}
    try:
        sys.modules.update(given)
        return load_submission(board, file)
    finally:
        for name, before in kept.items():
            sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before

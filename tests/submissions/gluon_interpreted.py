"""Runs a Blackwell Gluon submission on the CPU: its own functions as Python, over torch, with what they use replaced.

What is asynchronous on the device is so here: copies of TMA and products of tcgen05 are queued, and carried out at some
later time, at random: products in their order, stores in theirs, loads in any. Waiting for a barrier carries out what
is queued; where that does not help and no other partition of warps can go on, it is a deadlock. A buffer that is used
too early or too late gives wrong numbers for some seed. Fences, layouts and bank conflicts mean nothing here.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

TMEM_COLUMNS = 512


class Int(int):
    """A scalar of a kernel, or a constant: an int with what Triton's have beside."""

    value = property(int)

    def to(self, dtype: object) -> Int:
        return self


def _closed(name: str) -> Callable[[Int, Any], Any]:
    def operator(self: Int, other: Any) -> Any:
        made = getattr(int, name)(self, other)
        return Int(made) if type(made) is int else made

    return operator


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _side in (f"__{_name}__", f"__r{_name}__"):
        setattr(Int, _side, _closed(_side))


class Value(torch.Tensor):
    """What is in registers."""

    type = SimpleNamespace(layout=None)

    def to(self, dtype: Any, bitcast: bool = False) -> Any:
        return self.contiguous().view(dtype) if bitcast else super().to(dtype)


class Pointer:
    def __init__(self, memory: torch.Tensor, offset: Any = 0) -> None:
        self.memory, self.offset = memory, offset

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.offset + offset)


class Shared:
    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def index(self, i: int) -> Shared:
        assert 0 <= i < len(self.data)
        return Shared(self.data[i])

    def permute(self, order: tuple[int, ...]) -> Shared:
        return Shared(self.data.permute(order))

    def _reinterpret(self, dtype: Any, shape: list[int], layout: object) -> Shared:
        return Shared(self.data.view(shape))

    def load(self, layout: object) -> Value:
        return self.data.clone().as_subclass(Value)

    def store(self, value: torch.Tensor) -> None:
        self.data.copy_(value)


class TensorMemory:
    """`count` tensors of rows × width, 128 rows to a block, the blocks of one side by side: from column `start` on."""

    def __init__(self, cells: torch.Tensor, start: int, count: int, rows: int, width: int) -> None:
        self.cells, self.start, self.count, self.rows, self.width = cells, start, count, rows, width
        assert start + count * width * rows // 128 <= cells.shape[1]

    def index(self, i: int) -> TensorMemory:
        assert 0 <= i < self.count
        return TensorMemory(self.cells, self.start + i * self.width * self.rows // 128, 1, self.rows, self.width)

    def slice(self, start: int, length: int) -> TensorMemory:
        assert self.count == self.rows // 128 == 1
        return TensorMemory(self.cells, self.start + start, 1, self.rows, length)

    def _reinterpret(self, dtype: Any, shape: list[int], layout: object) -> TensorMemory:
        return TensorMemory(self.cells, self.start, *shape)

    @property
    def blocks(self) -> list[torch.Tensor]:
        return [self.cells[:, self.start + b * self.width :][:, : self.width] for b in range(self.rows // 128)]

    def load(self, layout: object) -> Value:
        return torch.cat(self.blocks).as_subclass(Value)

    def accumulate(self, product: torch.Tensor, use_acc: bool) -> None:
        for block, part in zip(self.blocks, product.split(128), strict=True):
            block.copy_(block + part if use_acc else part)


class Descriptor:
    """A tensor map: boxes beyond its right or lower end read zeros, and what is written there is dropped."""

    def __init__(self, descriptor: Any) -> None:
        self.base, self.box, self.layout = descriptor.base, descriptor.block_shape, descriptor.layout
        self.block_type = SimpleNamespace(nbytes=4 * self.box[0] * self.box[1])

    def inside(self, at: list[int]) -> torch.Tensor:
        return self.base[at[0] : at[0] + self.box[0], at[1] : at[1] + self.box[1]]


class Barrier:
    def __init__(self) -> None:
        self.phase = self.count = self.pending = self.bytes = 0

    def settle(self) -> None:
        assert self.pending >= 0
        if self.pending == self.bytes == 0:
            self.phase += 1
            self.pending = self.count

    def arrive(self) -> None:
        self.pending -= 1
        self.settle()


class Barriers:
    def __init__(self, count: int) -> None:
        self.all = [Barrier() for _ in range(count)]

    def index(self, i: int) -> Barrier:
        assert 0 <= i < len(self.all)
        return self.all[i]


class Device:
    """One thread block at a time, with its queues. Only one partition of warps runs; it yields where it waits."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.turn = threading.Condition()
        self.failed: list[BaseException] = []

    def start(self, program: int, programs: int) -> None:
        self.program, self.programs = Int(program), Int(programs)
        self.loads: list[Callable[[], None]] = []
        self.products: list[Callable[[], None]] = []
        self.stores: list[Callable[[], None]] = []
        self.columns = 0
        self.cells = torch.full((128, TMEM_COLUMNS), torch.nan)

    def step(self) -> bool:
        """Carries one queued operation out, if there is one."""
        queues = [queue for queue in (self.loads, self.products, self.stores) if queue]
        if not queues:
            return False
        queue = self.random.choice(queues)
        queue.pop(self.random.randrange(len(queue)) if queue is self.loads else 0)()
        return True

    def queue(self, queue: list[Callable[[], None]], operation: Callable[[], None]) -> None:
        queue.append(operation)
        while self.random.random() < 0.3 and self.step():
            pass
        self.turn.notify_all()

    def wait(self, barrier: Barrier, phase: int, pred: bool = True) -> None:
        while pred and barrier.phase % 2 == phase % 2:
            if self.step():
                self.turn.notify_all()
            elif not self.turn.wait(timeout=2) or self.failed:
                raise RuntimeError("deadlock")

    def specialize(self, partitions: list[tuple[Callable[..., None], tuple]], *_: object) -> None:
        def work(function: Callable[..., None], arguments: tuple) -> None:
            with self.turn:
                try:
                    function(*arguments)
                except BaseException as error:
                    self.failed.append(error)
                self.turn.notify_all()

        threads = [threading.Thread(target=work, args=each) for each in partitions[1:]]
        for thread in threads:
            thread.start()
        function, arguments = partitions[0]
        function(*arguments)
        self.turn.release()  # the others may have something left to do
        for thread in threads:
            thread.join()
        self.turn.acquire()
        if self.failed:
            raise self.failed[0]

    def launch(self, kernel: Callable[..., None], grid: int, arguments: tuple, options: dict[str, Any]) -> None:
        def argument(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return Pointer(value.view(-1))
            return Int(value) if isinstance(value, int) else Descriptor(value)

        constants = {name: value for name, value in options.items() if name.isupper()}
        with self.turn:
            for program in range(grid):
                self.start(program, grid)
                kernel(*map(argument, arguments), **{name: Int(value) for name, value in constants.items()})
                while self.step():
                    pass


def rounded(x: torch.Tensor) -> torch.Tensor:
    """To the nearest TF32, ties away from zero, as cvt.rna.tf32 does."""
    bits = (x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
    return torch.where(x.isfinite(), bits.view(torch.float32), x)


def _language(device: Device) -> SimpleNamespace:
    def allocate(dtype: Any, shape: list[int], layout: object) -> Any:
        if dtype is torch.int64:
            return Barriers(shape[0]) if len(shape) == 2 else Barrier()
        return Shared(torch.full(shape, torch.nan))

    def load(pointer: Pointer, mask: Any = None, other: Any = 0.0) -> Value:
        mask = torch.ones_like(pointer.offset, dtype=torch.bool) if mask is None else mask
        offset = torch.where(mask, pointer.offset, 0)
        return torch.where(mask, pointer.memory[offset], other).as_subclass(Value)

    def store(pointer: Pointer, value: torch.Tensor, mask: Any = None) -> None:
        mask = torch.ones_like(value, dtype=torch.bool) if mask is None else mask.expand(value.shape)
        pointer.memory[pointer.offset.expand(value.shape)[mask].as_subclass(torch.Tensor)] = value[mask]

    def assembly(code: str, constraints: str, arguments: list[torch.Tensor], **_: object) -> torch.Tensor:
        assert code == "cvt.rna.tf32.f32 $0, $1;"
        return rounded(arguments[0]).as_subclass(Value)

    def nothing(*_: object, **__: object) -> None:
        return None

    return SimpleNamespace(
        float32=torch.float32, int64=torch.int64, uint32=torch.int32, static_range=range,
        constexpr=lambda value: value, SliceLayout=nothing, BlockedLayout=nothing, SwizzledSharedLayout=nothing,
        NVMMASharedLayout=nothing, program_id=lambda axis: device.program, num_programs=lambda axis: device.programs,
        arange=lambda start, end, layout: torch.arange(start, end).as_subclass(Value), where=torch.where,
        zeros=lambda shape, dtype, layout: torch.zeros(shape).as_subclass(Value), rsqrt=torch.rsqrt,
        reduce_or=lambda bits, axis: bits.sum(axis, dtype=torch.int32), inline_asm_elementwise=assembly,
        allocate_shared_memory=allocate, load=load, store=store, warp_specialize=device.specialize,
    )  # fmt: skip


def _copies(device: Device) -> SimpleNamespace:
    def fetch(source: Descriptor, at: list[int], barrier: Barrier, target: Shared, pred: bool = True) -> None:
        def arrive() -> None:
            found = source.inside(at)
            target.data.zero_()
            target.data[: found.shape[0], : found.shape[1]] = found
            barrier.bytes -= source.block_type.nbytes
            barrier.settle()

        assert list(target.data.shape) == source.box
        if pred:
            device.queue(device.loads, arrive)

    def put(target: Descriptor, at: list[int], source: Shared) -> None:
        def write() -> None:
            room = target.inside(at)
            room.copy_(source.data[: room.shape[0], : room.shape[1]])

        device.queue(device.stores, write)

    def wait(pending: int) -> None:
        while len(device.stores) > pending:
            device.stores.pop(0)()

    return SimpleNamespace(async_copy_global_to_shared=fetch, async_copy_shared_to_global=put, store_wait=wait)


def _barriers(device: Device) -> SimpleNamespace:
    def init(barrier: Barrier, count: int) -> None:
        barrier.count = barrier.pending = count

    def expect(barrier: Barrier, nbytes: int, pred: bool = True) -> None:
        if pred:
            barrier.bytes += nbytes
            barrier.arrive()

    def arrive(barrier: Barrier, count: int) -> None:
        barrier.arrive()
        device.turn.notify_all()

    return SimpleNamespace(
        MBarrierLayout=lambda: None, init=init, expect=expect, arrive=arrive, wait=device.wait
    )  # fmt: skip


def interpret(module: ModuleType, seed: int = 0) -> None:
    """Replaces in a loaded submission what it uses of Gluon, its kernels by launchers."""
    device = Device(seed)

    def multiply(a: Shared, b: Shared, total: TensorMemory, use_acc: Any = True) -> None:
        device.queue(device.products, lambda: total.accumulate(a.data @ b.data, bool(use_acc)))

    def allocate(dtype: Any, shape: list[int], layout: object) -> TensorMemory:
        count, rows, width = [1, *shape][-3:]
        start = device.columns
        device.columns += count * width * rows // 128
        return TensorMemory(device.cells, start, count, rows, width)

    def launcher(kernel: Callable[..., None]) -> Any:
        class Launcher:
            def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
                return lambda *arguments, **options: device.launch(kernel, grid[0], arguments, options)

        return Launcher()

    replaced = {
        "gl": _language(device), "tma": _copies(device), "mbarrier": _barriers(device), "tcgen05_mma": multiply,
        "tcgen05_commit": lambda barrier: device.queue(device.products, barrier.arrive),
        "fence_async_shared": lambda: None, "allocate_tensor_memory": allocate, "row_layout": lambda *_: None,
        "TensorMemoryLayout": lambda *_, **__: None,
    }  # fmt: skip
    for name, value in list(vars(module).items()):
        if type(value).__name__ == "GluonJITFunction":
            replaced[name] = launcher(value.fn) if name.endswith("_kernel") else value.fn
        elif type(value).__name__ == "constexpr":
            replaced[name] = Int(value.value)
    vars(module).update(replaced)

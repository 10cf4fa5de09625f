"""Runs the PTX of the cholesky board's CuTe DSL kernels on the CPU: enough of Hopper and Blackwell for those, no more.

Registers of a warp are arrays of 32, and a warp that has diverged runs its lowest addresses first. Warps take turns
where they wait. What is asynchronous on the card (TMA, wgmma, tcgen05) happens at once, so phases of barriers, layouts
of shared and tensor memory, descriptors, addresses and arithmetic are put to the test, and the race is not. An
instruction that is not known raises, and so does an address outside of what a kernel was given. `mul` and `sub` round
one by one where ptxas would fuse them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

LANES = 32
SHARED_START = 1024
SHARED_BYTES = 227 * 1024
WAITS, ENDS = "waits", "ends"
Operation = Callable[["Warp", np.ndarray], Any]


class Deadlock(Exception):
    pass


def entries(ptx: str) -> list[str]:
    """The texts of its kernels."""
    return [".visible .entry" + text for text in ptx.split(".visible .entry")[1:]]


class Kernel:
    """An entry as operations: `operations[i](warp, lanes)`."""

    def __init__(self, text: str) -> None:
        head, _, body = text.partition("\n{")
        self.parameters = re.findall(r"\.param [^\n]*?(\w+)(?:\[\d+\])?,?\n", head + "\n")
        self.threads = int(re.findall(r"\.reqntid (\d+)", head)[0])
        self.operations: list[Operation] = []
        self.labels: dict[str, int] = {}
        statements = list(self._statements(body))
        at = 0
        for statement in statements:  # labels first: branches go forward, too
            if statement.endswith(":"):
                self.labels[statement[:-1]] = at
            else:
                at += 1
        for statement in statements:
            if not statement.endswith(":"):
                self.operations.append(self._operation(statement))

    @staticmethod
    def _statements(body: str) -> Iterable[str]:
        """Instructions and labels. Inline assembly's own labels and predicates get the number of their scope."""
        scope, count = "", itertools.count()
        body = re.sub(r"//[^\n]*", "", body)
        for statement in re.findall(r"\s*(\{(?=\s*\.reg)|\}(?=\s|$)|[\w$]+:|[^;{}]*(?:\{[^}]*\}[^;{}]*)*;)", body):
            statement = " ".join(statement.split())
            if statement == "{":
                scope = f"_{next(count)}"
            elif statement == "}":
                scope = ""
            elif not statement.startswith((".reg", ".pragma")):
                yield re.sub(r"\b(LAB_WAIT|DONE|P1|p)\b(?=[:;, ]|$)", rf"\1{scope}", statement.rstrip(";").strip())

    def _operation(self, statement: str) -> Operation:
        guard = re.match(r"@(!?)(%?\w+) +", statement)
        name, _, rest = statement[guard.end() if guard else 0 :].partition(" ")
        arguments = [x.strip() for x in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+", rest) if x.strip()]
        operation = self._unguarded(name, arguments)
        if not guard:
            return operation
        negated, predicate = guard.groups()

        def guarded(warp: Warp, lanes: np.ndarray) -> Any:
            chosen = lanes & (warp.get(predicate, "pred") != bool(negated))
            return operation(warp, chosen) if chosen.any() else None

        return guarded

    def _unguarded(self, name: str, arguments: list[str]) -> Operation:
        for start, make in MAKERS.items():
            if name == start or name.startswith(start + "."):
                return make(self, name, arguments)
        raise NotImplementedError(f"{name} {arguments}")


class Block:
    """A CTA: its memories, its barriers, and whatever of global memory it may touch."""

    def __init__(self, kernel: Kernel, number: int, parameters: dict[str, Any], memory: list[np.ndarray]) -> None:
        self.kernel, self.number, self.parameters = kernel, number, parameters
        self.buffers = [(x.ctypes.data, x.nbytes, x.reshape(-1).view(np.uint32)) for x in memory]
        self.shared = np.full(SHARED_BYTES // 4, 0x7FC00000, np.uint32)
        self.tensor = np.full((128, 512), np.nan, np.float32)
        self.allocated, self.permitted, self.events = 0, True, 0
        self.mbarriers: dict[int, list[int]] = {}
        self.barriers: dict[int, tuple[int, int]] = {}
        self.warps = [Warp(self, i) for i in range(kernel.threads // LANES)]

    def run(self) -> None:
        while any(not warp.done for warp in self.warps):
            before = self.events
            if not [warp for warp in self.warps if not warp.done and warp.run()] and self.events == before:
                raise Deadlock([min(warp.groups) for warp in self.warps if not warp.done])
        assert self.allocated == 0

    def words(self, addresses: np.ndarray, space: str) -> tuple[np.ndarray, np.ndarray]:
        """The memory that the addresses are in, and their places in it."""
        assert not (addresses % 4).any()
        if space == "shared":
            places = (addresses.astype(np.int64) - SHARED_START) // 4
            assert places.min() >= 0
            return self.shared, places
        for start, size, words in self.buffers:
            places = (addresses.astype(np.int64) - start) // 4
            if 0 <= places[0] < size // 4:
                assert places.min() >= 0
                assert places.max() < size // 4
                return words, places
        raise IndexError(hex(int(addresses[0])))

    def arrive(self, address: int, count: int, expected_bytes: int = 0) -> None:
        state = self.mbarriers[address]
        state[1] -= count
        state[2] += expected_bytes
        self._turn(state)

    def complete(self, address: int, size: int) -> None:
        state = self.mbarriers[address]
        state[2] -= size
        self._turn(state)

    @staticmethod
    def _turn(state: list[int]) -> None:
        """state: arrivals expected, arrivals and bytes that are missing, parity of the phase."""
        assert state[1] >= 0
        if state[1] == state[2] == 0:
            state[1], state[3] = state[0], state[3] ^ 1

    def operand(self, descriptor: int, rows: int, *, blackwell: bool) -> np.ndarray:
        """[rows, 8] of TF32 in shared memory: K-major, 64-byte swizzle."""
        start, stride = (descriptor & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
        swizzle = descriptor >> 61 & 7 if blackwell else descriptor >> 62
        assert swizzle == (4 if blackwell else 2)
        assert not blackwell or descriptor >> 46 & 7 == 1
        row, column = np.arange(rows)[:, None], np.arange(8)[None, :]
        bits = self.shared[(swizzled(start + row // 8 * stride + row % 8 * 64 + column * 4) - SHARED_START) // 4]
        values = bits.view(np.float32)
        assert not (bits & 0x1FFF)[np.isfinite(values)].any()  # rounded to TF32
        return values


def swizzled(addresses: np.ndarray) -> np.ndarray:
    """The 64-byte swizzle: 16-byte units of a 128-byte line by the number of the line."""
    return addresses ^ (addresses >> 7 & 3) << 4


class Warp:
    def __init__(self, block: Block, number: int) -> None:
        self.block, self.number = block, number
        self.registers: dict[str, np.ndarray] = {}
        self.groups = {0: np.ones(LANES, bool)}  # which lanes are at which operation
        self.waiting: tuple[int, int] | None = None
        self.lane = np.arange(LANES)
        self.special = {
            "%tid.x": number * LANES + self.lane, "%tid.y": 0 * self.lane, "%tid.z": 0 * self.lane,
            "%ntid.x": 0 * self.lane + block.kernel.threads, "%ntid.y": 0 * self.lane + 1,
            "%ctaid.x": 0 * self.lane + block.number, "%laneid": self.lane,
        }  # fmt: skip

    @property
    def done(self) -> bool:
        return not self.groups

    def run(self) -> bool:
        """Runs until it must wait. False if it did nothing."""
        operations = self.block.kernel.operations
        ran = False
        while self.groups:
            at = min(self.groups)
            lanes = self.groups[at]
            result = operations[at](self, lanes)
            if isinstance(result, str) and result == WAITS:
                return ran
            ran = True
            del self.groups[at]
            if isinstance(result, str):
                continue
            if isinstance(result, tuple):
                target, chosen = result
                self._join(target, lanes & chosen)
                lanes = lanes & ~chosen
            self._join(at + 1, lanes)
        return ran

    def _join(self, at: int, lanes: np.ndarray) -> None:
        if lanes.any():
            self.groups[at] = self.groups[at] | lanes if at in self.groups else lanes

    def get(self, name: str, kind: str) -> np.ndarray:
        """kind: the type at the end of an instruction's name."""
        dtype = TYPES[kind]
        if name in self.registers:
            value = self.registers[name]
            if value.dtype == bool:
                return value
            if value.dtype.itemsize > np.dtype(dtype).itemsize:
                raise TypeError(f"{name} as {kind}")
            return value.view(dtype) if value.dtype.itemsize == np.dtype(dtype).itemsize else value.astype(dtype)
        if name in self.special:
            return self.special[name].astype(dtype)
        if name.startswith("0f"):
            return np.full(LANES, int(name[2:], 16), np.uint32).view(dtype)
        if name == "__dynamic_shmem__0":
            return np.full(LANES, SHARED_START, dtype)
        if name in self.block.kernel.parameters:
            return np.full(LANES, self.block.kernel.parameters.index(name), dtype)
        if name.startswith("%"):  # never written: a warp may move what it has no use for
            return np.full(8 * LANES, 0xFF, np.uint8).view(dtype)[:LANES]
        if kind == "pred":
            return np.full(LANES, int(name) != 0)
        value = int(name) & ((1 << 8 * np.dtype(dtype).itemsize) - 1)
        return np.full(LANES, value, f"u{np.dtype(dtype).itemsize}").view(dtype)

    def put(self, name: str, value: np.ndarray, lanes: np.ndarray) -> None:
        if name == "_":
            return
        if value.dtype != bool:
            value = value.view(f"u{value.dtype.itemsize}")
        if not lanes.all() and name in self.registers:
            value = np.where(lanes, value, self.registers[name])
        self.registers[name] = np.broadcast_to(value, (LANES,)).copy()


TYPES = {
    "b8": np.uint8, "b16": np.uint16, "u16": np.uint16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f32": np.float32, "pred": bool,
}  # fmt: skip


def names(braces: str) -> list[str]:
    return [x.strip() for x in braces.strip("{}").split(",")]


def arithmetic(compute: Callable[..., np.ndarray]) -> Callable[[Kernel, str, list[str]], Operation]:
    """Of the type that ends the name, from it to it."""

    def make(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
        kind = name.rsplit(".", 1)[1]
        to, *sources = arguments

        def operation(warp: Warp, lanes: np.ndarray) -> None:
            with np.errstate(all="ignore"):
                value = compute(*(warp.get(x, kind) for x in sources))
            warp.put(to, value.astype(TYPES[kind]), lanes)

        return operation

    return make


def shift(compute: Callable[..., np.ndarray]) -> Callable[[Kernel, str, list[str]], Operation]:
    def make(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
        kind = name.rsplit(".", 1)[1]
        to, source, by = arguments

        def operation(warp: Warp, lanes: np.ndarray) -> None:
            warp.put(to, compute(warp.get(source, kind), warp.get(by, "b32").astype(TYPES[kind])), lanes)

        return operation

    return make


def wide(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    kind = name.rsplit(".", 1)[1]
    to, a, b = arguments
    target = {"s32": np.int64, "u32": np.uint64, "u16": np.uint32}[kind]

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        warp.put(to, warp.get(a, kind).astype(target) * warp.get(b, kind).astype(target), lanes)

    return operation


def mul(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    if name.startswith("mul.wide"):
        return wide(kernel, name, arguments)
    return arithmetic(lambda a, b: a * b)(kernel, name, arguments)


def sub(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    if name != "sub.f32x2":
        return arithmetic(lambda a, b: a - b)(kernel, name, arguments)
    to, a, b = arguments

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        left, right = (warp.get(x, "b64").view(np.float32) for x in (a, b))
        warp.put(to, (left - right).view(np.uint64), lanes)

    return operation


def convert(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    to, source = arguments
    if name == "cvt.rna.tf32.f32":

        def rounds(warp: Warp, lanes: np.ndarray) -> None:
            bits = warp.get(source, "b32")
            finite = np.isfinite(bits.view(np.float32))
            warp.put(to, np.where(finite, (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits), lanes)

        return rounds
    _, target, kind = name.split(".")

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        warp.put(to, warp.get(source, kind).astype(TYPES[target]), lanes)

    return operation


def move(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    kind = name.rsplit(".", 1)[1]
    to, source = arguments

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        if to.startswith("{"):
            halves = warp.get(source, "b64").view(np.uint32).reshape(LANES, 2)
            for half, register in enumerate(names(to)):
                warp.put(register, halves[:, half].copy(), lanes)
        elif source.startswith("{"):
            halves = np.stack([warp.get(x, "b32") for x in names(source)], axis=1)
            warp.put(to, np.ascontiguousarray(halves).view(np.uint64)[:, 0], lanes)
        else:
            warp.put(to, warp.get(source, kind), lanes)

    return operation


def compare(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    _, relation, kind = name.split(".")
    to, a, b = arguments
    ufunc = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
        "ge": np.greater_equal,
    }[relation]  # fmt: skip

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        warp.put(to, ufunc(warp.get(a, kind), warp.get(b, kind)), lanes)

    return operation


def select(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    kind = name.rsplit(".", 1)[1]
    to, a, b, predicate = arguments

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        warp.put(to, np.where(warp.get(predicate, "pred"), warp.get(a, kind), warp.get(b, kind)), lanes)

    return operation


def place(warp: Warp, brackets: str, kind: str) -> np.ndarray:
    """The address in [register+offset]."""
    register, _, offset = brackets.strip("[]").partition("+")
    return (warp.get(register, kind).astype(np.int64) + int(offset or 0)).astype(TYPES[kind])


def shape_of(name: str) -> tuple[int, str]:
    """How many words, and the type of each."""
    kind = name.rsplit(".", 1)[1]
    return int((re.findall(r"\.v(\d)", name) or ["1"])[0]), kind


def load(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    to, source = arguments
    count, kind = shape_of(name)
    registers = names(to) if to.startswith("{") else [to]
    assert len(registers) == count
    size = np.dtype(TYPES[kind]).itemsize
    space = name.split(".")[1]
    if space == "param":
        parameter, _, offset = source.strip("[]").partition("+")
        start = int(offset or 0)

        def from_parameters(warp: Warp, lanes: np.ndarray) -> None:
            data = warp.block.parameters[parameter][start:][: count * size]
            for register, value in zip(registers, np.frombuffer(data, TYPES[kind]), strict=True):
                warp.put(register, np.full(LANES, value), lanes)

        return from_parameters

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        addresses = place(warp, source, "b32" if space == "shared" else "b64")[lanes]
        assert not (addresses % (count * size)).any()
        words, places = warp.block.words(addresses, space)
        for i, register in enumerate(registers):
            value = np.zeros(LANES, TYPES[kind])
            if size == 4:
                value[lanes] = words[places + i]
            else:
                value[lanes] = np.stack([words[places + 2 * i], words[places + 2 * i + 1]], 1).view(np.uint64)[:, 0]
            warp.put(register, value, lanes)

    return operation


def store(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    to, source = arguments
    count, kind = shape_of(name)
    registers = names(source) if source.startswith("{") else [source]
    assert len(registers) == count
    size = np.dtype(TYPES[kind]).itemsize
    space = name.split(".")[1]

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        addresses = place(warp, to, "b32" if space == "shared" else "b64")[lanes]
        assert not (addresses % (count * size)).any()
        words, places = warp.block.words(addresses, space)
        for i, register in enumerate(registers):
            value = warp.get(register, kind)[lanes]
            if size == 4:
                words[places + i] = value.view(np.uint32)
            else:
                halves = np.ascontiguousarray(value).view(np.uint32).reshape(-1, 2)
                words[places + 2 * i], words[places + 2 * i + 1] = halves[:, 0], halves[:, 1]

    return operation


def branch(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    (label,) = arguments
    return lambda warp, lanes: (kernel.labels[label], lanes)


def shuffle(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    assert name == "shfl.sync.idx.b32"
    to, source, lane, clamp, mask = arguments
    assert (clamp, mask) == ("31", "-1")

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.all()
        warp.put(to, warp.get(source, "b32")[warp.get(lane, "b32")], lanes)

    return operation


def elect(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    predicate = arguments[0].split("|")[1]

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.all()
        warp.put(predicate, warp.lane == 0, lanes)

    return operation


def barrier(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    if name == "bar.warp.sync":
        return whole_warp
    number = int(arguments[0])
    count = int(arguments[1]) if len(arguments) > 1 else kernel.threads

    def operation(warp: Warp, lanes: np.ndarray) -> Any:
        assert lanes.all()
        arrived, generation = warp.block.barriers.get(number, (0, 0))
        if warp.waiting is None:
            arrived += LANES
            warp.block.events += 1
            if arrived == count:
                warp.block.barriers[number] = (0, generation + 1)
                return None
            warp.block.barriers[number] = (arrived, generation)
            warp.waiting = (number, generation)
        if warp.waiting == (number, generation):
            return WAITS
        warp.waiting = None
        return None

    return operation


def whole_warp(warp: Warp, lanes: np.ndarray) -> None:
    assert lanes.all()


def one(values: np.ndarray, lanes: np.ndarray) -> int:
    """What all lanes agree on."""
    assert (values[lanes] == values[lanes][0]).all()
    return int(values[lanes][0])


def mbarrier(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    what = name.removeprefix("mbarrier.").split(".shared")[0]

    def initialise(warp: Warp, lanes: np.ndarray) -> None:
        count = one(warp.get(arguments[1], "b32"), lanes)
        warp.block.mbarriers[one(place(warp, arguments[0], "b32"), lanes)] = [count, count, 0, 0]

    def expect(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.sum() == 1
        warp.block.arrive(one(place(warp, arguments[1], "b32"), lanes), 1, one(warp.get(arguments[2], "b32"), lanes))

    def arrive(warp: Warp, lanes: np.ndarray) -> None:
        warp.block.arrive(one(place(warp, arguments[1], "b32"), lanes), int(lanes.sum()))

    def await_phase(warp: Warp, lanes: np.ndarray) -> Any:
        parity = one(warp.get(arguments[2], "b32"), lanes)
        if warp.block.mbarriers[one(place(warp, arguments[1], "b32"), lanes)][3] == parity:
            return WAITS
        warp.put(arguments[0], np.ones(LANES, bool), lanes)
        return None

    return {"init": initialise, "arrive.expect_tx": expect, "arrive": arrive, "try_wait.parity": await_phase}[what]


def copy_tile(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    """TMA of 128 rows × 16 columns, to the 64-byte swizzle. The parameter is the matrix itself."""
    assert ".tensor.2d.shared::cta.global.tile.mbarrier" in name
    to, source, bar, _ = arguments
    matrix, column, row = re.findall(r"%\w+", source)

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.sum() == 1
        data = warp.block.parameters[warp.block.kernel.parameters[one(warp.get(matrix, "b64"), lanes)]]
        x, y = one(warp.get(column, "s32"), lanes), one(warp.get(row, "s32"), lanes)
        tile = data[y : y + 128, x : x + 16]
        assert tile.shape == (128, 16)
        start = one(place(warp, to, "b32"), lanes)
        assert start % 512 == 0
        addresses = swizzled(start + 64 * np.arange(128)[:, None] + 4 * np.arange(16)[None, :])
        warp.block.shared[(addresses - SHARED_START) // 4] = tile.view(np.uint32)
        warp.block.complete(one(place(warp, bar, "b32"), lanes), tile.nbytes)

    return operation


def wgmma(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    if not name.startswith("wgmma.mma_async"):
        return whole_warp
    assert name == "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32"
    sums, left, right, accumulate, *signs = arguments
    assert signs == ["1", "1"]
    registers = names(sums)

    def operation(warp: Warp, lanes: np.ndarray) -> None:
        """A warp's 16 rows. Register 4·c + 2·h + e of lane l is row l/4 + 8·h, column 8·c + 2·(l mod 4) + e."""
        first = 16 * (warp.number % 4)
        a = warp.block.operand(one(warp.get(left, "b64"), lanes), 64, blackwell=False)[first : first + 16]
        b = warp.block.operand(one(warp.get(right, "b64"), lanes), 128, blackwell=False)
        product = a @ b.T
        for index, register in enumerate(registers):
            c, h, e = index // 4, index // 2 % 2, index % 2
            mine = product[warp.lane // 4 + 8 * h, 8 * c + 2 * (warp.lane % 4) + e]
            before = warp.get(register, "f32")
            warp.put(register, np.where(warp.get(accumulate, "pred"), before + mine, mine), lanes)

    return operation


def tcgen05(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    what = re.split(r"[.:]", name)[1]

    def allocate(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.all()
        assert warp.block.permitted
        warp.block.allocated = one(warp.get(arguments[1], "b32"), lanes)
        words, places = warp.block.words(place(warp, arguments[0], "b32"), "shared")
        words[places] = 0

    def relinquish(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.all()
        warp.block.permitted = False

    def deallocate(warp: Warp, lanes: np.ndarray) -> None:
        assert one(warp.get(arguments[1], "b32"), lanes) == warp.block.allocated
        warp.block.allocated = 0

    def multiply(warp: Warp, lanes: np.ndarray) -> None:
        """Bits of the instruction descriptor: 4 f32 sums, 7 and 10 TF32 factors (2), 17 columns / 8, 24 rows / 16."""
        assert lanes.sum() == 1
        to, left, right, instruction, _, accumulate = arguments
        wanted = 1 << 4 | 2 << 7 | 2 << 10 | (128 // 8) << 17 | (128 // 16) << 24
        assert one(warp.get(instruction, "b32"), lanes) == wanted
        start = one(place(warp, to, "b32"), lanes)
        assert start + 128 <= warp.block.allocated
        a = warp.block.operand(one(warp.get(left, "b64"), lanes), 128, blackwell=True)
        b = warp.block.operand(one(warp.get(right, "b64"), lanes), 128, blackwell=True)
        sums = warp.block.tensor[:, start : start + 128]
        sums[...] = a @ b.T + (sums if one(warp.get(accumulate, "pred"), lanes) else 0)

    def commit(warp: Warp, lanes: np.ndarray) -> None:
        assert lanes.sum() == 1
        warp.block.arrive(one(place(warp, arguments[0], "b32"), lanes), 1)

    def read(warp: Warp, lanes: np.ndarray) -> None:
        """32 columns of the 32 lanes that the warp may see, a lane of tensor memory in each of its own."""
        assert name == "tcgen05.ld.sync.aligned.32x32b.x32.b32"
        address = one(place(warp, arguments[1], "b32"), lanes)
        row, column = address >> 16, address & 0xFFFF
        assert row == 32 * (warp.number % 4)
        for i, register in enumerate(names(arguments[0])):
            warp.put(register, warp.block.tensor[row : row + 32, column + i].copy(), lanes)

    return {
        "alloc": allocate, "relinquish_alloc_permit": relinquish, "dealloc": deallocate, "mma": multiply,
        "commit": commit, "ld": read, "wait": whole_warp,
    }[what]  # fmt: skip


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) * b + c


def nothing(kernel: Kernel, name: str, arguments: list[str]) -> Operation:
    return lambda warp, lanes: None


MAKERS: dict[str, Callable[[Kernel, str, list[str]], Operation]] = {
    "add": arithmetic(lambda a, b: a + b),
    "sub": sub,
    "mul": mul,
    "mad.lo": arithmetic(lambda a, b, c: a * b + c),
    "fma.rn": arithmetic(fused),
    "div.s32": arithmetic(lambda a, b: np.trunc(a / b)),
    "rem.s32": arithmetic(np.fmod),
    "max.s32": arithmetic(np.maximum),
    "neg": arithmetic(lambda a: -a),
    "and": arithmetic(lambda a, b: a & b),
    "or": arithmetic(lambda a, b: a | b),
    "xor": arithmetic(lambda a, b: a ^ b),
    "not": arithmetic(lambda a: ~a),
    "rsqrt.approx.ftz": arithmetic(lambda a: 1 / np.sqrt(a)),
    "shl": shift(lambda a, by: a << by),
    "shr": shift(lambda a, by: a >> by),
    "cvt": convert,
    "cvta.param.u64": lambda kernel, name, arguments: move(kernel, "mov.b64", arguments),
    "mov": move,
    "setp": compare,
    "selp": select,
    "ld": load,
    "st": store,
    "bra": branch,
    "ret": lambda kernel, name, arguments: lambda warp, lanes: ENDS,
    "shfl": shuffle,
    "elect.sync": elect,
    "bar": barrier,
    "fence": nothing,
    "mbarrier": mbarrier,
    "cp.async.bulk": copy_tile,
    "wgmma": wgmma,
    "tcgen05": tcgen05,
}

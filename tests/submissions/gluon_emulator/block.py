"""A thread block: its partitions of warps, what it has in flight, and who goes on when."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple


class Region(NamedTuple):
    """A part of a memory of the block: bytes of shared memory or columns of tensor memory, from `first` to `last`."""

    memory: str
    first: int
    last: int

    def meets(self, other: Region) -> bool:
        return self.memory == other.memory and self.first <= other.last and other.first <= self.last


@dataclass(eq=False)
class Operation:
    """Something asynchronous: a copy, a product, an arrival."""

    do: Callable[[], Any]
    reads: list[Region] = field(default_factory=list)
    writes: list[Region] = field(default_factory=list)
    pipe: tuple[Partition, str] | None = None
    """Those of one pipe are done in their order."""
    result: Any = None
    done: bool = False


class Partition:
    """Warps that run one function of `gl.warp_specialize`; a block begins with one."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.ended = False
        self.ready: Callable[[], bool] = lambda: True
        """Whether what it waits for has come."""
        self.groups: dict[str, list[list[Operation]]] = {}
        """What was committed together, of every kind of operation, the oldest first."""
        self.open_group: list[Operation] = []
        """Of `cp.async`, not committed yet."""
        self.unfenced: set[Region] = set()
        """Where it stored since its last fence."""


class Stopped(BaseException):
    """Ends a partition whose block has failed."""


class Device:
    """When things are done.

    After every step of a partition something that is in flight is done with this `chance`, and then again something.
    1 is at once; 0 is as late as can be: when somebody waits for it, or when all partitions wait.
    """

    def __init__(self, seed: int = 0, chance: float = 0.3) -> None:
        self.random = random.Random(seed)
        self.chance = chance


class Block:
    """Only one partition runs at a time: until it waits, or until by chance others are urgent.

    So the same seed is the same run. Two partitions that use the same memory without a barrier are found by wrong
    numbers, if one of them is far enough ahead; what is in flight is found whenever it is still there.
    """

    running: ClassVar[Block]

    def __init__(self, device: Device, program: int, programs: int) -> None:
        self.device, self.program, self.programs = device, program, programs
        self.flying: list[Operation] = []
        self.partitions = [Partition()]
        self.current = self.partitions[0]
        self.urgent: list[Partition | None] = []
        """The partitions, and None for what is in flight, in the order in which they go on if they can."""
        self.shuffle()
        self.failure: BaseException | None = None
        self.allocations: list[Any] = []
        """Of shared memory: none takes the place of another one."""
        self.tensor_memory: Any = None
        self.columns = 0
        """Of tensor memory, that are allocated."""

    # What is in flight.

    def issue(self, operation: Operation) -> Operation:
        """Starts something; it must not get in the way of anything that is in flight, but for that of its own pipe."""
        for region in operation.reads:
            self.check(region, pipe=operation.pipe)
        for region in operation.writes:
            self.check(region, writes=True, pipe=operation.pipe)
        self.flying.append(operation)
        self.pause()
        return operation

    def check(self, region: Region, *, writes: bool = False, pipe: object = None) -> None:
        """Fails where a region is used while an operation still needs it."""
        for other in self.flying:
            if pipe is None or other.pipe != pipe:
                assert not any(map(region.meets, other.writes)), "memory is used while it is being written"
                assert not writes or not any(map(region.meets, other.reads)), "memory is written while it is being read"

    def check_fenced(self, region: Region) -> None:
        """Before copies of TMA and products: stores of threads reach them through a fence only (tutorial "TMA")."""
        for partition in self.partitions:
            assert not any(map(region.meets, partition.unfenced)), "memory was stored to without a fence"

    def perform(self, operation: Operation) -> None:
        self.flying.remove(operation)
        operation.result, operation.done = operation.do(), True

    def next_ones(self) -> Iterator[Operation]:
        """Of what is in flight, all that may be done next."""
        pipes = set()
        for operation in self.flying:
            if operation.pipe is None or operation.pipe not in pipes:
                pipes.add(operation.pipe)
                yield operation

    def step(self) -> bool:
        """Does one thing that is in flight, if there is one."""
        if not self.flying:
            return False
        self.perform(self.device.random.choice(list(self.next_ones())))
        return True

    def commit(self, kind: str, group: list[Operation]) -> None:
        self.current.groups.setdefault(kind, []).append(group)

    def wait_group(self, kind: str, outstanding: int) -> None:
        """Until all groups of this partition are done but the last few."""
        groups = self.current.groups.get(kind, [])
        while len(groups) > outstanding:
            for operation in groups.pop(0):
                if not operation.done:
                    self.perform(operation)

    def use(self, memory: Any, *, writes: bool = False) -> None:
        """A load or a store of a partition."""
        self.pause()
        if self.flying:
            self.check(memory.region, writes=writes)

    # Whose turn it is.

    def pause(self) -> None:
        """Between two steps of a partition, anything may happen."""
        while self.device.random.random() < self.device.chance and self.step():
            pass
        if len(self.partitions) > 1 and self.device.random.random() < 0.03:
            self.shuffle()
            self.wait_until(lambda: True)

    def wait_until(self, ready: Callable[[], bool]) -> None:
        me = self.current
        me.ready = ready
        following = self.following()
        if following is not me:
            self.hand_over(following)
            me.turn.acquire()
            if self.failure is not None:
                raise self.failure if me is self.partitions[0] else Stopped

    def shuffle(self) -> None:
        """From now on others are urgent: for a while, so that one may get far ahead of another one."""
        self.urgent = self.device.random.sample([*self.partitions, None], len(self.partitions) + 1)
        if self.device.chance == 0:
            self.urgent.remove(None)
            self.urgent.append(None)

    def following(self) -> Partition:
        """The most urgent one of those that can go on, after anything in flight that is more urgent still."""
        while True:
            for one in self.urgent:
                if one is None and self.step():
                    break
                if one is not None and not one.ended and one.ready():
                    return one
            else:
                raise AssertionError("deadlock: all partitions wait, and nothing is in flight")

    def hand_over(self, partition: Partition) -> None:
        self.current = partition
        partition.turn.release()

    def specialize(self, functions: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        """Runs the first function in this partition, every other one in its own. What one raises is raised here."""
        workers = [Partition() for _ in functions[1:]]
        threads = [
            threading.Thread(target=self._work, args=(worker, *function))
            for worker, function in zip(workers, functions[1:], strict=True)
        ]
        self.partitions += workers
        self.shuffle()
        for thread in threads:
            thread.start()
        try:
            function, arguments = functions[0]
            function(*arguments)
            self.wait_until(lambda: all(worker.ended for worker in workers))
        except BaseException as error:
            self.failure = error
            raise
        finally:
            for worker, thread in zip(workers, threads, strict=True):
                if not worker.ended:
                    worker.turn.release()
                thread.join()
            del self.partitions[1:]
            self.shuffle()

    def _work(self, me: Partition, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        me.turn.acquire()
        try:
            if self.failure is None:
                function(*arguments)
                me.ended = True
                self.hand_over(self.following())
        except Stopped:
            pass
        except BaseException as error:
            self.failure, me.ended = error, True
            self.hand_over(self.partitions[0])

    def end(self) -> None:
        """Nothing may use memory of the block any more; what is on its way to global memory arrives."""
        assert not any(x.reads or x.writes for x in self.flying), "the block ends with copies or products in flight"
        while self.step():
            pass

"""Memory that the supervisor shares with one worker: where inputs are placed and outputs are left.

An input's storages lie at addresses that change from call to call and sometimes come back with new content. What lies
in a slot is never trusted afterwards: the supervisor keeps its own pristine copy and takes a snapshot of the output.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from harness.cuda.driver import OUT_OF_MEMORY, CudaError, SharedMemory
from harness.evaluation.workers import WorkerProcess
from harness.wire.packing import ALIGNMENT, Packed, layout
from harness.wire.words import sealed_file

Placement = tuple[str, int, int]
"""Where a block lies: the arena's name, the offset in it and the size, in bytes."""

MIN_SLACK_BYTES, MAX_SLACK_BYTES = 1 << 20, 256 << 20
POISON = 0xFF
"""Every byte of an output slot before a call: NaN in every float format that has one."""


class Arena(Protocol):
    """A block of shared memory: `flat` is a uint8 view of it here, `fd` what the worker maps."""

    flat: torch.Tensor
    fd: int
    nbytes: int

    def close(self) -> None: ...


class HostArena:
    """Host memory in an anonymous file."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = max(nbytes, mmap.PAGESIZE)
        self.fd = sealed_file("harness-arena", self.nbytes)
        self.flat = torch.frombuffer(mmap.mmap(self.fd, self.nbytes), dtype=torch.uint8)

    def close(self) -> None:
        os.close(self.fd)
        self.flat = torch.empty(0, dtype=torch.uint8)


class DeviceArena:
    """CUDA memory exported as a file descriptor. Raises torch.OutOfMemoryError."""

    def __init__(self, nbytes: int) -> None:
        self._memory = _shared(nbytes)
        assert self._memory.fd is not None
        self.nbytes, self.fd = self._memory.nbytes, self._memory.fd
        self.flat = torch.as_tensor(self._memory, device="cuda")

    def close(self) -> None:
        self.flat = torch.empty(0, dtype=torch.uint8)
        self._memory.close()


def _shared(nbytes: int) -> SharedMemory:
    """Once more without what torch keeps for later, where there is not enough."""
    for last in (False, True):
        try:
            return SharedMemory.create(nbytes, torch.cuda.current_device())
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            if last:
                text = f"the device has no {nbytes / 2**30:.1f} GiB left to share with a worker"
                raise torch.OutOfMemoryError(text) from None
        torch.cuda.empty_cache()
    raise AssertionError("the last attempt returns or raises")


ARENA_OF: dict[str, Callable[[int], Arena]] = {"cpu": HostArena, "cuda": DeviceArena}


@dataclass(frozen=True)
class Placed:
    """An input with its place for one call."""

    packed: Packed
    places: tuple[Placement, ...]

    def message(self) -> dict[str, Any]:
        """The part of a request that names it."""
        return {"data": self.packed.manifest, "placed": self.places}


class Slots:
    """The shared arenas of one worker. Arenas grow when a case needs more; a worker keeps the old mappings, so that a
    stale pointer of the submission reads stale bytes instead of crashing the process."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._arenas: dict[str, Arena] = {}
        self._outgrown: list[Arena] = []

    def close(self) -> None:
        for arena in [*self._arenas.values(), *self._outgrown]:
            arena.close()
        self._arenas, self._outgrown = {}, []

    def _arena(self, use: str, device: str, nbytes: int) -> Arena:
        name = f"{use}_{device}"
        arena = self._arenas.get(name)
        if arena is None or arena.nbytes < nbytes:
            if arena is not None:
                self._outgrown.append(arena)
            grown = ARENA_OF[device](nbytes)
            self._arenas[name] = grown
            request = {"op": "arena", "name": name, "device": device, "nbytes": grown.nbytes}
            self._worker.ask(request, [grown.fd], timeout_s=60.0)
            return grown
        return arena

    def place(self, packed: Packed, choice: random.Random) -> Placed:
        """Choose a place for every storage, in an order and at distances that `choice` decides. Nothing is written."""
        places: list[Placement] = [("", 0, 0)] * len(packed.specs)
        for device in {spec.device for spec in packed.specs}:
            mine = [i for i, spec in enumerate(packed.specs) if spec.device == device]
            choice.shuffle(mine)
            offsets, end = layout([packed.specs[i].nbytes for i in mine])
            slack = min(max(end, MIN_SLACK_BYTES), MAX_SLACK_BYTES)
            arena = self._arena("input", device, end + slack)
            # Few distinct starts, so that an address comes back with other content.
            start = choice.randrange(8) * (slack // 8 // ALIGNMENT) * ALIGNMENT
            for i, offset in zip(mine, offsets, strict=True):
                places[i] = (f"input_{device}", start + offset, packed.specs[i].nbytes)
            assert start + end <= arena.nbytes
        return Placed(packed, tuple(places))

    def bytes_at(self, place: Placement) -> torch.Tensor:
        arena, offset, size = place
        return self._arenas[arena].flat[offset : offset + size]

    def pairs(self, placed: Placed, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Every storage that lives on `device`, with its place; both flat uint8."""
        each = zip(placed.packed.specs, placed.packed.storages, placed.places, strict=True)
        return [(storage, self.bytes_at(place)) for spec, storage, place in each if spec.device == device]

    def reveal(self, placed: Placed, device: str) -> None:
        """Write the storages that live on `device` into their places."""
        for storage, slot in self.pairs(placed, device):
            slot.copy_(storage)

    def changed(self, placed: Placed, may_change: Callable[[str], bool]) -> str | None:
        """The path of an input whose bytes are not what was placed, or None. Storages of which every tensor may be
        written are left out."""
        for spec, storage, place in zip(placed.packed.specs, placed.packed.storages, placed.places, strict=True):
            if not all(may_change(path) for path in spec.paths) and not torch.equal(self.bytes_at(place), storage):
                return spec.paths[0]
        return None

    def output_places(self, sizes: Sequence[int], devices: Sequence[str]) -> tuple[Placement, ...]:
        """Places for an output, poisoned."""
        places: list[Placement] = [("", 0, 0)] * len(sizes)
        for device in set(devices):
            mine = [i for i, at in enumerate(devices) if at == device]
            offsets, end = layout([sizes[i] for i in mine])
            self._arena("output", device, end)
            for i, offset in zip(mine, offsets, strict=True):
                places[i] = (f"output_{device}", offset, sizes[i])
        self.poison(places)
        return tuple(places)

    def poison(self, places: Sequence[Placement]) -> None:
        for place in places:
            self.bytes_at(place).fill_(POISON)

    def snapshot(self, places: Sequence[Placement]) -> list[torch.Tensor]:
        """Private copies of what lies at these places now; later writes do not reach them."""
        copies = [self.bytes_at(place).clone() for place in places]
        if any(copy.is_cuda for copy in copies):
            torch.cuda.synchronize()
        return copies

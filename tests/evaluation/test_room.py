"""Memory of a device that several workers share, with numbers in the place of a device."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from harness.cuda.driver import OUT_OF_MEMORY, CudaError
from harness.evaluation import slots
from harness.evaluation.room import Room
from harness.evaluation.slots import DeviceArena

TOTAL = 100


@dataclass
class Memory:
    """In units that don't matter."""

    others: int = 0
    reserved: int = 0
    most_allocated: int = 0


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    now = Memory()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (TOTAL - now.others - now.reserved, TOTAL))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: now.reserved)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: now.most_allocated)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    return now


def test_as_many_join_as_have_room_like_the_first(memory: Memory) -> None:
    memory.others = 10  # twins and contexts
    room = Room(cuda=True)
    memory.others, memory.reserved, memory.most_allocated = 30, 25, 30
    room.first_is_in()
    assert room.for_another()  # 20 more, and 30 of ours, of the 70 that are left
    memory.others = 50
    assert room.for_another()  # of 50, exactly
    memory.others = 51
    assert not room.for_another()


def test_what_is_kept_for_later_is_no_obstacle(memory: Memory) -> None:
    room = Room(cuda=True)
    memory.others, memory.reserved, memory.most_allocated = 40, 60, 20
    room.first_is_in()
    assert room.for_another()


def test_without_a_device_there_is_room() -> None:
    room = Room(cuda=False)
    room.first_is_in()
    assert room.for_another()


@pytest.mark.parametrize("failures", [1, 2])
def test_a_slot_that_has_no_memory_is_tried_again_without_what_is_kept(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied, tried = [], []

    class Shared:
        nbytes, fd, address = 64, 3, 0

    def create(nbytes: int, device: int) -> Shared:
        tried.append(nbytes)
        if len(tried) <= failures:
            raise CudaError("cuMemCreate", OUT_OF_MEMORY, "out of memory")
        return Shared()

    monkeypatch.setattr(slots.SharedMemory, "create", create)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    monkeypatch.setattr(torch, "as_tensor", lambda memory, device: memory)
    if failures == 1:
        assert DeviceArena(64).nbytes == 64
    else:
        with pytest.raises(torch.OutOfMemoryError, match="GiB left to share"):
            DeviceArena(2 << 30)
    assert emptied == [True]
    assert len(tried) == 2

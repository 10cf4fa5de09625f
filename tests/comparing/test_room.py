"""Whether all workers have room, on a device that is a number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.comparing.crew import Crew
from harness.comparing.room import Room

GB = 10**9


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Of 100 GB: `used` by all processes, `check` what a check took here at its most."""
    state = SimpleNamespace(used=0, check=0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100 * GB - state.used, 100 * GB))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: state.check)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 0)
    return state


def worker(*, alive: bool) -> Any:
    return SimpleNamespace(alive=alive, held_bytes=0)


@pytest.mark.parametrize(("took", "check", "enough"), [(12, 4, True), (12, 5, False), (13, 0, False)])
def test_workers_that_do_not_live_yet_want_what_the_first_one_took(
    device: SimpleNamespace, took: int, check: int, enough: bool
) -> None:
    room = Room(worker(alive=False))
    device.used, device.check = took * GB, check * GB
    assert room.suffices([worker(alive=False)] * 7) is enough


def test_workers_that_live_want_what_is_new_and_ended_ones_all_of_it(device: SimpleNamespace) -> None:
    first = worker(alive=False)
    room = Room(first)
    device.used = 10 * GB
    assert room.suffices([worker(alive=False)] * 7)
    first.alive, device.used = True, 80 * GB
    room = Room(first)
    device.used = 82 * GB
    assert first.held_bytes == 10 * GB
    assert room.suffices([worker(alive=True)] * 7)
    assert first.held_bytes == 12 * GB
    room = Room(first)
    assert not room.suffices([worker(alive=False)] * 2)


def test_half_of_a_crew_is_its_first_and_the_others_are_ended() -> None:
    ended: list[tuple[str, int]] = []

    def contestant(side: str, number: int) -> Any:
        return SimpleNamespace(side=side, number=number, close=lambda: ended.append((side, number)))

    crew = Crew.of(4, contestant)
    two = crew.halved()
    assert ended == []
    crew.end_all_but(two)
    assert ([c.number for c in two.a], [c.number for c in two.b], two.processes) == ([0, 1], [0, 1], 2)
    assert sorted(ended) == [("a", 2), ("a", 3), ("b", 2), ("b", 3)]
    one = two.halved()  # the null run takes a second one of A
    assert ([c.number for c in one.a], [c.number for c in one.b], one.processes) == ([0, 1], [0], 1)
    assert two.first is crew.first is one.first

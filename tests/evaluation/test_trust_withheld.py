"""The pieces of an input that a CUDA worker gets with the release."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.withheld import (
    ALIGNMENT,
    COUNT,
    LEAST_PITCH,
    SPARSE,
    WIDTH,
    Withheld,
    places,
    rows_of,
)


@given(nbytes=st.integers(0, 1 << 34), seed=st.integers(0, 1 << 32))
def test_places_lie_inside_cut_no_element_and_are_few(nbytes: int, seed: int) -> None:
    rows = places(nbytes, random.Random(seed))
    if rows is None:
        assert nbytes < 2 * LEAST_PITCH
        return
    assert 2 <= rows.count <= COUNT
    assert ALIGNMENT <= rows.width <= WIDTH
    assert rows.offset % ALIGNMENT == rows.pitch % ALIGNMENT == rows.width % ALIGNMENT == 0
    assert rows.offset + rows.width <= rows.pitch
    assert rows.count * rows.pitch <= nbytes
    assert rows.nbytes <= nbytes / SPARSE


def test_places_are_secret() -> None:
    assert len({places(1 << 20, random.Random(seed)) for seed in range(50)}) > 25


def test_rows_of_a_tensor() -> None:
    flat = torch.arange(100, dtype=torch.uint8)[10:]
    rows = places(1 << 20, random.Random(1))
    assert rows is not None
    few = type(rows)(offset=2, pitch=20, width=3, count=4)
    assert rows_of(flat, few).tolist() == [[12, 13, 14], [32, 33, 34], [52, 53, 54], [72, 73, 74]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("largest", [1 << 23, 1 << 25])  # written from the host and on the device
def test_slots_are_false_until_the_release(largest: int) -> None:
    withheld, choice = Withheld(), random.Random(3)
    sources = [torch.randint(0, 256, (n,), dtype=torch.uint8, device="cuda") for n in (largest, 5003, 100, 1 << 20, 3)]
    before, slots = [source.clone() for source in sources], [torch.zeros_like(source) for source in sources]
    withheld.aim(list(zip(sources, slots, strict=True)), choice)
    torch.cuda.synchronize()
    assert not any(slot.any() for slot in slots)
    withheld.write()
    assert all(torch.equal(source, kept) for source, kept in zip(sources, before, strict=True))
    wrong = [int((slot != source).sum()) for slot, source in zip(slots, sources, strict=True)]
    assert wrong[2] == wrong[4] == 0
    assert all(0 < wrong[i] <= sources[i].numel() / SPARSE for i in (0, 1, 3))
    withheld.give()
    assert all(torch.equal(slot, source) for slot, source in zip(slots, sources, strict=True))

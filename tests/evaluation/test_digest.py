"""The digest that binds a CUDA worker to its output, and what it is taken from."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.cuda.digest import CLOCK_PTX, LANES, MOST_BLOCKS, PARTS, _Parts, blocks_for
from harness.evaluation import capture
from harness.evaluation.capture import Capture, digest_of
from harness.evaluation.record import ReasonCode, Status
from harness.evaluation.workers import WorkerFault
from harness.worker.output import describe_output, moves

CUDA = torch.cuda.is_available()
Words = np.ndarray[Any, np.dtype[np.uint32]]
"""Hashes or words side by side: uint32, the last dimension 4."""


def absorb(h: Words, w: Words) -> Words:
    """Written anew from the paper's figure of the permutation, for many at once."""
    x = np.atleast_2d(h ^ w)  # whose sums wrap without a warning
    a, b, c, d = (x[..., i].copy() for i in range(4))

    def turned(v: Words, by: int) -> Words:
        return (v << np.uint32(by)) | (v >> np.uint32(32 - by))

    for _ in range(4):
        a = a + b
        b = turned(b, 5) ^ a
        a = turned(a, 16)
        c = c + d
        d = turned(d, 8) ^ c
        a = a + d
        d = turned(d, 13) ^ a
        c = c + b
        b = turned(b, 7) ^ c
        c = turned(c, 16)
    return (np.stack([a, b, c, d], axis=-1) ^ x).reshape((h ^ w).shape)


def joined(hashes: Words) -> Words:
    """Of a power of two of hashes, or of rows of them."""
    while hashes.shape[-2] > 1:
        half = hashes.shape[-2] // 2
        hashes = absorb(hashes[..., :half, :], np.roll(hashes[..., half:, :], -1, axis=-1))
    return hashes[..., 0, :]


def header(kind: int, second: Words, third: int) -> Words:
    return np.stack([np.full_like(second, v) if np.isscalar(v) else v for v in (kind, second, third, 0)], axis=-1)


def of_part(content: bytes, number: int, parts: int, first_block: int) -> Words:
    blocks = blocks_for(len(content), parts)
    lanes, whole = blocks * LANES, len(content) // 16
    words = np.frombuffer(content[: 16 * whole], dtype=np.uint32).reshape(whole, 4)
    lane = np.arange(lanes, dtype=np.uint32)
    hashes = header(1, lane % LANES, 0)
    hashes[:, 2] = first_block + lane // LANES
    size = np.array([len(content) & 0xFFFFFFFF, len(content) >> 32, number, blocks], dtype=np.uint32)
    hashes = absorb(hashes, size)
    for start in range(0, whole, lanes):
        some = words[start : start + lanes]
        hashes[: len(some)] = absorb(hashes[: len(some)], some)
    if tail := content[16 * whole :]:
        word = np.frombuffer(tail.ljust(16, b"\0"), dtype=np.uint32)
        hashes[whole % lanes] = absorb(hashes[whole % lanes], word)
    return joined(hashes.reshape(blocks, LANES, 4))


def digest(contents: list[bytes]) -> tuple[int, ...]:
    """The digest of these parts, as clock.cu describes it."""
    chained = np.array([4, 0, 0, 0], dtype=np.uint32)
    for batch in [contents[i : i + PARTS] for i in range(0, len(contents), PARTS)] or [[]]:
        of_blocks: list[Words] = []
        for number, content in enumerate(batch):
            of_blocks.extend(of_part(content, number, len(batch), len(of_blocks)))
        if not batch:
            of_blocks.append(joined(header(1, np.arange(LANES, dtype=np.uint32), 0)))
        last = header(3, np.arange(LANES, dtype=np.uint32), len(of_blocks))
        for block, word in enumerate(of_blocks):
            last[block % LANES] = absorb(last[block % LANES], word)
        lanes = min(LANES, 1 << (len(of_blocks) - 1).bit_length())
        chained = absorb(chained, joined(last[:lanes]))
    return tuple(int(v) for v in chained[:3])


SIZES = [1, 15, 16, 17, 4095, 4096, 4097, 16 * LANES * MOST_BLOCKS, 16 * LANES * MOST_BLOCKS * 5 + 16 * 300 + 3]


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("sizes", [[], *([n] for n in SIZES), SIZES[:7], [100] * 33, [0, 5, 0], [1 << 20] * 3])
def test_the_device_computes_what_is_described(sizes: list[int]) -> None:
    parts = [torch.randint(256, (n,), dtype=torch.uint8, device="cuda") for n in sizes]
    found = digest_of(parts)
    assert found == digest([part.cpu().numpy().tobytes() for part in parts])
    assert digest_of(parts) == found  # the state is ready for the next
    for part in parts[-1:]:
        if part.numel():
            part[-1] ^= 1
            assert digest_of(parts) != found


@given(a=st.lists(st.binary(max_size=40), max_size=3), b=st.lists(st.binary(max_size=40), max_size=3))
def test_contents_of_other_bytes_or_bounds_have_other_digests(a: list[bytes], b: list[bytes]) -> None:
    assert (digest(a) == digest(b)) == (a == b)


def test_the_list_of_parts_is_as_large_as_the_kernel_takes_it() -> None:
    declared = re.search(rb"digest_param_3\[(\d+)\]", CLOCK_PTX)
    assert declared is not None
    assert int(declared[1]) == ctypes.sizeof(_Parts)


def test_an_output_of_another_digest_than_was_told_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "digest_of", lambda snapshot: (1, 2, 3))
    held = Capture(cuda=False)
    held._cuda = True
    reading: Any = SimpleNamespace(wall_ns=5000, committed_ns=6000, gate_ns=0, digest=(1, 2, 3))
    assert held.charged_ns(reading, []) == 5000
    reading.digest = (1, 2, 4)
    with pytest.raises(WorkerFault) as refused:
        held.charged_ns(reading, [])
    assert (refused.value.status, refused.value.reason.code) == (Status.REJECTED, ReasonCode.LATE_OUTPUT)
    assert "digest" in refused.value.reason.message


@pytest.mark.parametrize(
    ("made", "direct"),
    [
        (lambda: torch.arange(64.0).view(8, 8), True),
        (lambda: torch.arange(64.0).view(8, 8).mT, True),
        (lambda: torch.arange(64.0).view(8, 1, 8).permute(2, 0, 1), True),
        (lambda: torch.arange(64.0).view(8, 8)[:, :4], False),
        (lambda: torch.arange(64.0)[1:], False),
        (lambda: torch.arange(64.0)[4:], True),
        (lambda: torch.arange(4.0).expand(8, 4), False),
        (lambda: torch.arange(64).to(torch.float8_e4m3fn), True),
        (lambda: torch.arange(8.0).to(torch.complex64).conj(), False),
        (lambda: torch.empty(0), True),
        (lambda: torch.tensor(1.5), True),
    ],
)
def test_the_digest_is_of_the_bytes_that_come_to_the_slot(made: Any, direct: bool) -> None:
    tensor = made()
    output = describe_output(tensor, [])
    arena = torch.full((1024,), 0xFF, dtype=torch.uint8)
    (move,) = moves(output, [("a", 256, output.sizes[0])], {"a": arena})
    assert move.direct == direct
    move.copy()
    address, nbytes = move.span
    assert nbytes == output.sizes[0]
    assert ctypes.string_at(address, nbytes) == arena[256 : 256 + nbytes].numpy().tobytes()
    assert bool((arena[256 + nbytes :] == 0xFF).all())
    assert bool((arena[:256] == 0xFF).all())

"""The digest of an output in device memory: what a worker is committed to once it has told it.

96 bits over every byte of the output, by the kernel `digest` of clock.cu. Worker and supervisor use the same.
What it can't hold against somebody who chooses words that no check looks at is in docs/trust.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_int, c_longlong, c_uint32, c_uint64, c_void_p
from pathlib import Path

from harness.cuda import driver

CLOCK_PTX = (Path(__file__).parent / "clock.ptx").read_bytes()

Span = tuple[int, int]
"""A part of an output: the address of its first byte, a multiple of ALIGNMENT, and its size in bytes."""

Value = tuple[int, int, int]
"""A digest, as three unsigned words of 32 bits."""

ALIGNMENT = 16
PARTS, MOST_BLOCKS, LANES = 32, 512, 256
"""As in clock.cu: parts and blocks in a launch, threads of a block."""
HEADER_BYTES, BLOCK_BYTES = 32, 16
"""Of the kernel's state: what comes before the blocks' hashes, and one of those."""


class _Part(Structure):
    _fields_ = (("start", c_uint64), ("bytes", c_longlong), ("first_block", c_int), ("blocks", c_int))


class _Parts(Structure):
    _fields_ = (("each", _Part * PARTS), ("count", c_int))


def blocks_for(nbytes: int, parts: int) -> int:
    """How many blocks read a part of so many bytes, one of `parts` in a launch: a word of 16 for each lane, if there
    are enough."""
    return min(MOST_BLOCKS // parts, max(1, -(-nbytes // (ALIGNMENT * LANES))))


class Digest:
    """The kernel in the current context, with its state. Launches must follow one another in a stream."""

    def __init__(self, module: c_void_p) -> None:
        self._kernel = driver.Kernel(module, "digest")
        self._state = driver.allocate(HEADER_BYTES + MOST_BLOCKS * BLOCK_BYTES)

    def launch(self, spans: Sequence[Span], stream: int, page: int = 0, number: int = 0) -> None:
        """Queue the digest of these parts, in their order. The device's address of a page of words makes the kernel
        tell it there with the call's number (`harness.wire.words`)."""
        batches = [spans[i : i + PARTS] for i in range(0, len(spans), PARTS)] or [()]
        for i, batch in enumerate(batches):
            parts = _Parts(count=len(batch))
            blocks = 0
            for slot, (address, nbytes) in zip(parts.each, batch, strict=False):
                slot.start, slot.bytes, slot.first_block = address, nbytes, blocks
                slot.blocks = blocks_for(nbytes, len(batch))
                blocks += slot.blocks
            self._kernel.launch(
                max(1, blocks),
                LANES,
                stream,
                c_uint64(page),
                c_int(number),
                c_uint64(self._state),
                parts,
                c_int(i == 0),
                c_int(i == len(batches) - 1),
            )

    def value(self, stream: int) -> Value:
        """What the last launch found; waits for it."""
        words = (c_uint32 * 3)()
        driver.copy_to_host(ctypes.addressof(words), self._state, ctypes.sizeof(words), stream)
        return words[0], words[1], words[2]

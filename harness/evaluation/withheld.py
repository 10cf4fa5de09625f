"""The last pieces of an input, which come when the call is released and not before.

Between the reveal of an input and the release lies the pass over the L2. A worker without a gate could compute in it.
So runs of bytes at secret places, all over the largest tensors of the input, hold something else until then: the same
tensor's bytes from the place of the next run, which no value's form tells apart. The true ones are written by a copy
engine, which does not wait for the multiprocessors, right before the clock starts; an output that was computed from
less is wrong. They are few, so that the input stays out of the L2 but for a part in thousands.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.cuda.driver import Rows, copy_rows_to_device

COUNT, WIDTH = 256, 512
"""At most so many runs of so many bytes are withheld of a tensor."""
ALIGNMENT = 16
"""Of runs and their distance: no element is cut, of any dtype."""
SPARSE = 16
"""At most this part of a tensor is withheld: the rest must be in memory, not in the cache."""
LEAST_PITCH = 512
TENSORS = 4
"""The largest so many of an input's; each costs a copy before the release."""
SMALL_INPUT_BYTES = 16 << 20
"""An input up to this size is written from host memory, by a copy engine: 0.3 ms over the bus. A copy on the device
takes the multiprocessors, which the gate holds, and so waits for its process's turn, 4 ms."""
IMAGE_ROWS = 8
"""Rows that an input written from host memory is copied in."""


def places(nbytes: int, choice: random.Random) -> Rows | None:
    """Which runs of a tensor of `nbytes` are withheld; None where it is too small for two."""
    count = min(COUNT, nbytes // LEAST_PITCH)
    if count < 2:
        return None
    pitch = nbytes // count // ALIGNMENT * ALIGNMENT
    width = min(WIDTH, max(ALIGNMENT, pitch // SPARSE // ALIGNMENT * ALIGNMENT))
    return Rows(choice.randrange((pitch - width) // ALIGNMENT + 1) * ALIGNMENT, pitch, width, count)


def rows_of(flat: torch.Tensor, rows: Rows) -> torch.Tensor:
    """A view of these runs of a flat uint8 tensor, one a row."""
    return torch.as_strided(flat, (rows.count, rows.width), (rows.pitch, 1), flat.storage_offset() + rows.offset)


@dataclass(frozen=True)
class _Part:
    """One tensor of an input: `image` in pinned host memory holds it with false pieces, if it comes from there."""

    source: torch.Tensor
    slot: torch.Tensor
    rows: Rows | None
    kept: torch.Tensor
    """The true pieces, in pinned host memory, one a row."""
    image: torch.Tensor | None


class Withheld:
    """What is withheld of one input; its pinned buffers and stream serve call after call."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._buffer = torch.empty(TENSORS * COUNT * WIDTH, dtype=torch.uint8, pin_memory=True)
        self._images = torch.empty(0, dtype=torch.uint8)
        self._parts: list[_Part] = []

    def aim(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], choice: random.Random) -> None:
        """Choose what is withheld of these sources, each with its slot (flat uint8 in device memory), and fetch what
        has to be on the host. Call it while the device is free; the sources must not change until `write`."""
        largest = sorted(range(len(pairs)), key=lambda i: -pairs[i][0].numel())[:TENSORS]
        images = self._images_of(sum(source.numel() for source, _ in pairs))
        self._parts = []
        taken = imaged = 0
        for i, (source, slot) in enumerate(pairs):
            rows = places(source.numel(), choice) if i in largest else None
            size = 0 if rows is None else rows.nbytes
            kept = self._buffer[taken : taken + size]
            image = None if images is None else images[imaged : imaged + source.numel()]
            if rows is not None:
                kept = kept.view(rows.count, rows.width)
                kept.copy_(rows_of(source, rows), non_blocking=True)
            if image is not None:
                image.copy_(source, non_blocking=True)
            self._parts.append(_Part(source, slot, rows, kept, image))
            taken, imaged = taken + size, imaged + source.numel()
        torch.cuda.synchronize()
        for part in self._parts:
            if part.rows is not None and part.image is not None:
                rows_of(part.image, part.rows).copy_(part.kept.roll(1, 0))

    def write(self) -> None:
        """Write every source to its slot, the withheld pieces false from the start, and wait until it is there. The
        sources are as before then, the slots complete after `give`."""
        for part in self._parts:
            if part.image is not None:
                self._copy_image(part.slot, part.image)
            elif part.rows is None:
                part.slot.copy_(part.source)
            else:
                pieces = rows_of(part.source, part.rows)
                true = pieces.clone()
                pieces.copy_(true.roll(1, 0))
                part.slot.copy_(part.source)
                pieces.copy_(true)
        self._stream.synchronize()
        if any(part.image is None for part in self._parts):
            torch.cuda.synchronize()

    def give(self) -> None:
        """Write the true pieces, and wait until they are there."""
        for part in self._parts:
            if part.rows is not None:
                address = part.kept.data_ptr()
                copy_rows_to_device(part.slot.data_ptr(), address, part.rows, self._stream.cuda_stream)
        self._stream.synchronize()

    def _copy_image(self, slot: torch.Tensor, image: torch.Tensor) -> None:
        """By a copy engine: the driver gives it what comes in rows (0.07 ms), while a plain copy waits on the queue of
        the multiprocessors for its process's turn (2 ms)."""
        width, rest = divmod(slot.numel(), IMAGE_ROWS)
        done = slot.numel() - rest
        if width:
            rows = Rows(0, width, width, IMAGE_ROWS)
            copy_rows_to_device(slot.data_ptr(), image.data_ptr(), rows, self._stream.cuda_stream)
        if rest:
            rows = Rows(done, rest, rest, 1)
            copy_rows_to_device(slot.data_ptr(), image.data_ptr() + done, rows, self._stream.cuda_stream)

    def _images_of(self, nbytes: int) -> torch.Tensor | None:
        """Pinned memory for an input of so many bytes, or None where it is too large for that."""
        if nbytes > SMALL_INPUT_BYTES:
            return None
        if self._images.numel() < nbytes:
            self._images = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        return self._images

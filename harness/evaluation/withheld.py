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

import torch

from harness.cuda.driver import Rows, copy_rows_to_device
from harness.evaluation.peek import rows_of

COUNT, WIDTH = 256, 512
"""At most so many runs of so many bytes are withheld of a tensor."""
ALIGNMENT = 16
"""Of runs and their distance: no element is cut, of any dtype."""
SPARSE = 16
"""At most this part of a tensor is withheld: the rest must be in memory, not in the cache."""
LEAST_PITCH = 512
TENSORS = 4
"""The largest so many of an input's; each costs a copy before the release."""


def places(nbytes: int, choice: random.Random) -> Rows | None:
    """Which runs of a tensor of `nbytes` are withheld; None where it is too small for two."""
    count = min(COUNT, nbytes // LEAST_PITCH)
    if count < 2:
        return None
    pitch = nbytes // count // ALIGNMENT * ALIGNMENT
    width = min(WIDTH, max(ALIGNMENT, pitch // SPARSE // ALIGNMENT * ALIGNMENT))
    return Rows(choice.randrange((pitch - width) // ALIGNMENT + 1) * ALIGNMENT, pitch, width, count)


class Withheld:
    """What is withheld of one input; its pinned buffer and stream serve call after call."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._buffer = torch.empty(TENSORS * COUNT * WIDTH, dtype=torch.uint8, pin_memory=True)
        self._pending: list[tuple[torch.Tensor, Rows, torch.Tensor]] = []

    def write(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], choice: random.Random) -> None:
        """Write every source to its slot (flat uint8 in device memory), the withheld pieces false from the start.

        All of it is queued on the current stream, which must be waited for before `give`; the sources are as before
        then, the slots complete after `give`.
        """
        self._pending = []
        largest = sorted(range(len(pairs)), key=lambda i: -pairs[i][0].numel())[:TENSORS]
        taken = 0
        for i, (source, slot) in enumerate(pairs):
            rows = places(source.numel(), choice) if i in largest else None
            if rows is None:
                slot.copy_(source)
                continue
            kept = self._buffer[taken : taken + rows.nbytes].view(rows.count, rows.width)
            taken += rows.nbytes
            pieces = rows_of(source, rows)
            true = pieces.clone()
            kept.copy_(true, non_blocking=True)
            pieces.copy_(true.roll(1, 0))
            slot.copy_(source)
            pieces.copy_(true)
            self._pending.append((slot, rows, kept))

    def give(self) -> None:
        """Write the true pieces, and wait until they are there."""
        for slot, rows, kept in self._pending:
            copy_rows_to_device(slot.data_ptr(), kept.data_ptr(), rows, self._stream.cuda_stream)
        self._stream.synchronize()

"""A look at the output at the very moment a CUDA worker says that it is there.

The full snapshot needs the multiprocessors, and so waits for its turn: a kernel that told its end too early would
finish meanwhile. A strided copy by a copy engine does not wait. It reads runs of bytes at secret places, and the output
counts only if the full snapshot has the same bytes there.
"""

from __future__ import annotations

import random

import torch

from harness.cuda.driver import Rows, copy_rows_to_host

COUNT, WIDTH = 256, 64
"""How many runs of how many bytes are read; an output smaller than that is read whole."""


def places(nbytes: int, choice: random.Random) -> Rows:
    """Where a look falls in an output of `nbytes`."""
    if nbytes <= COUNT * WIDTH:
        return Rows(0, max(nbytes, 1), max(nbytes, 1), int(nbytes > 0))
    pitch = nbytes // COUNT
    return Rows(choice.randrange(pitch - WIDTH + 1), pitch, WIDTH, COUNT)


class Peek:
    """Reads from shared device memory through a stream and a pinned buffer of its own."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._buffer = torch.empty(COUNT * WIDTH, dtype=torch.uint8, pin_memory=True)
        self._rows = places(0, random.Random(0))

    def aim(self, nbytes: int, choice: random.Random) -> None:
        """Choose where the next look falls in an output of `nbytes`."""
        self._rows = places(nbytes, choice)

    def look(self, flat: torch.Tensor) -> torch.Tensor:
        """The bytes at the chosen places of `flat`, uint8 in device memory, as they are now. Overwritten by the next
        look."""
        if self._rows.count:
            copy_rows_to_host(self._buffer.data_ptr(), flat.data_ptr(), self._rows, self._stream.cuda_stream)
            self._stream.synchronize()
        return self._buffer[: self._rows.nbytes]

    def same_places(self, flat: torch.Tensor) -> torch.Tensor:
        """The bytes of another tensor at the places of the last look, on the CPU."""
        return rows_of(flat, self._rows).reshape(-1).cpu()


def rows_of(flat: torch.Tensor, rows: Rows) -> torch.Tensor:
    """A view of these runs of a flat uint8 tensor, one a row."""
    return torch.as_strided(flat, (rows.count, rows.width), (rows.pitch, 1), flat.storage_offset() + rows.offset)

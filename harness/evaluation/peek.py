"""A look at the output at the very moment a CUDA worker says that it is there.

The full snapshot needs the multiprocessors, and so waits for its turn: a kernel that told its end too early would
finish meanwhile. A strided copy by a copy engine does not wait. It reads runs of bytes at secret places, and the output
counts only if the full snapshot has the same bytes there.
"""

from __future__ import annotations

import random

import torch

from harness.cuda import driver

ROWS, WIDTH = 256, 64
"""How many runs of how many bytes are read; an output smaller than that is read whole."""


class Peek:
    """Reads from shared device memory through a stream and a pinned buffer of its own."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._buffer = torch.empty(ROWS * WIDTH, dtype=torch.uint8, pin_memory=True)
        self._pitch = self._width = self._rows = self._offset = 0

    def aim(self, nbytes: int, choice: random.Random) -> None:
        """Choose where the next look falls in an output of `nbytes`."""
        if nbytes <= ROWS * WIDTH:
            self._pitch = self._width = max(nbytes, 1)
            self._rows, self._offset = int(nbytes > 0), 0
        else:
            self._pitch, self._width, self._rows = nbytes // ROWS, WIDTH, ROWS
            self._offset = choice.randrange(self._pitch - WIDTH + 1)

    def look(self, flat: torch.Tensor) -> torch.Tensor:
        """The bytes at the chosen places of `flat`, uint8 in device memory, as they are now. Overwritten by the next
        look."""
        if self._rows:
            driver.copy_rows_to_host(
                self._buffer.data_ptr(),
                flat.data_ptr() + self._offset,
                pitch=self._pitch,
                width=self._width,
                rows=self._rows,
                stream=self._stream.cuda_stream,
            )
            self._stream.synchronize()
        return self._buffer[: self._rows * self._width]

    def same_places(self, flat: torch.Tensor) -> torch.Tensor:
        """The bytes of another tensor at the places of the last look, on the CPU."""
        rows = torch.as_strided(flat, (self._rows, self._width), (self._pitch, 1), flat.storage_offset() + self._offset)
        return rows.reshape(-1).cpu()

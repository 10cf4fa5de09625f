"""Whether a CUDA device's memory has room for a further worker of a case, told from what the first of them took."""

from __future__ import annotations

import torch


class Room:
    """Make it before a case, say `first_is_in` after the first worker's calls; a machine without a device has room.

    A further worker needs as much as the first took in this case, and the harness again what it needed beside that.
    """

    def __init__(self, *, cuda: bool) -> None:
        self._cuda, self._taken = cuda, 0
        if cuda:
            self._before = _others_bytes()
            torch.cuda.reset_peak_memory_stats()

    def first_is_in(self) -> None:
        if self._cuda:
            self._taken = _others_bytes() - self._before

    def for_another(self) -> bool:
        if not self._cuda:
            return True
        _, total = torch.cuda.mem_get_info()
        ours = torch.cuda.max_memory_allocated()
        return self._taken + ours <= total - _others_bytes()


def _others_bytes() -> int:
    """What is taken but not by this process's tensors and their caches: the workers' memory and the shared arenas."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()

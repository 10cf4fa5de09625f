"""Whether a CUDA device's memory holds all workers of a comparison, told from what the first of them took."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.comparing.contestants import Contestant


class Room:
    """Make it before the first worker's first call of a case, which starts it where it does not live yet."""

    def __init__(self, first: Contestant) -> None:
        self._first, self._was_alive = first, first.alive
        self._before = _free_bytes()
        torch.cuda.reset_peak_memory_stats()

    def suffices(self, others: Sequence[Contestant]) -> bool:
        """Ask after that call and its check. A worker that lives has what the first one had before the case; what the
        check took here will be needed again."""
        free = _free_bytes()
        taken = self._before - free
        self._first.held_bytes = taken + (self._first.held_bytes if self._was_alive else 0)
        wanted = sum(taken if other.alive else self._first.held_bytes for other in others)
        return wanted + torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated() <= free


def _free_bytes() -> int:
    torch.cuda.empty_cache()
    free: int = torch.cuda.mem_get_info()[0]
    return free

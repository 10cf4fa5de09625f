"""Emptying the device's L2 cache, so that a call finds its input in memory as a first call would."""

from __future__ import annotations

from functools import cache

import torch

from harness.cuda import driver


@cache
def _buffer() -> torch.Tensor:
    """Twice the size of the L2, allocated once."""
    nbytes = 2 * torch.cuda.get_device_properties(0).L2_cache_size
    return torch.zeros(nbytes // 4, dtype=torch.int32, device="cuda")


def flush_l2() -> None:
    """Queue a pass over twice the L2. Lines that were set to persist, by this process or by another, are made normal
    first: the pass would not evict them."""
    driver.reset_persisting_l2()
    _buffer().add_(1)

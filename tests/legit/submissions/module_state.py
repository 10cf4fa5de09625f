#!POPCORN leaderboard vectoradd
"""State of every kind at module level, warnings and logging among it, handlers at exit and for signals."""

import atexit
import functools
import logging
import random
import signal
import warnings
from dataclasses import dataclass, field

import torch

logging.basicConfig(level=logging.DEBUG)
log = logging.getLogger("kernel")
atexit.register(lambda: log.info("left"))
signal.signal(signal.SIGUSR1, lambda *args: None)
warnings.simplefilter("always")
torch.manual_seed(0)
random.seed(0)


@dataclass(frozen=True)
class Config:
    block: int = 1024
    extra: dict = field(default_factory=dict)


@functools.lru_cache
def config(size):
    return Config(block=min(1024, size))


class Counter:
    calls = 0


def custom_kernel(data):
    a, b = data
    Counter.calls += 1
    warnings.warn("a warning at every call", stacklevel=1)
    log.debug("call %d, %s", Counter.calls, config(len(a)))
    return torch.add(a, b)

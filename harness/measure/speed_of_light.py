"""The time that no kernel can beat, in two senses.

*Speed of light* is what a case is shown against: its flops and bytes over the device's rates. *Floor* is what rejects:
a time below it was not had by doing the work. Rates come from `devices.yml`, which names its sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.boards.board import Precision

FLOOR_FACTOR = 0.8
"""How far below the datasheet's time a floor lies: datasheets round, and boost clocks exceed them."""

_WIDER = {
    Precision.FP4: Precision.FP8,
    Precision.FP8: Precision.FP16,
    Precision.FP16: Precision.TF32,
    Precision.TF32: Precision.FP32,
}
_DEVICES = Path(__file__).with_name("devices.yml")


@dataclass(frozen=True)
class Peaks:
    """What a device can do at most, in bytes, bytes per second and flop per second."""

    dram_bytes_per_s: float
    l2_bytes: float
    flops: Mapping[Precision, float]

    def flops_per_s(self, precision: Precision) -> float | None:
        """The rate of that precision, or of the next wider one the device has; None when it lists neither."""
        at: Precision | None = precision
        while at is not None:
            if at in self.flops:
                return self.flops[at]
            at = _WIDER.get(at)
        return None


@cache
def _devices() -> Mapping[str, Peaks]:
    import yaml

    entries: list[dict[str, Any]] = yaml.safe_load(_DEVICES.read_text(encoding="utf-8"))
    return {
        name: Peaks(
            dram_bytes_per_s=float(entry["dram_bytes_per_s"]),
            l2_bytes=float(entry["l2_bytes"]),
            flops={Precision(key): float(rate) for key, rate in entry["flops"].items()},
        )
        for entry in entries
        for name in entry["names"]
    }


def known_devices() -> list[str]:
    """The device names that have peaks."""
    return list(_devices())


def peaks_for(device_name: str) -> Peaks | None:
    """The datasheet peaks of a device by the driver's name for it, e.g. `NVIDIA H200`; None for any other, CPUs too."""
    return _devices().get(device_name)


def speed_of_light_ns(flops: float, bytes_moved: float, precision: Precision, peaks: Peaks | None) -> float | None:
    """The longer of moving `bytes_moved` and doing `flops`, in nanoseconds.

    None for an unknown device, for a precision whose rate is not known, and for a case without work.
    """
    return _bound_ns(flops, bytes_moved, precision, peaks)


def floor_ns(flops: float, bytes_moved: float, precision: Precision, peaks: Peaks | None) -> float | None:
    """0.8 of the longer of the surely uncached traffic and the flops at their highest rate, in nanoseconds.

    Up to `l2_bytes` of the traffic may be served from L2, so only what exceeds it is counted. `precision` is the
    cheapest one that the board admits. None where nothing bounds the time from below.
    """
    uncached = max(0.0, bytes_moved - peaks.l2_bytes) if peaks else 0.0
    bound = _bound_ns(flops, uncached, precision, peaks)
    return None if bound is None else FLOOR_FACTOR * bound


def _bound_ns(flops: float, bytes_moved: float, precision: Precision, peaks: Peaks | None) -> float | None:
    if peaks is None:
        return None
    compute_s = 0.0
    if flops:
        rate = peaks.flops_per_s(precision)
        if rate is None:
            return None
        compute_s = flops / rate
    bound_s = max(compute_s, bytes_moved / peaks.dram_bytes_per_s)
    return bound_s * 1e9 if bound_s > 0 else None

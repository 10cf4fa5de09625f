"""What calibrating a device says: values only, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from harness.evaluation.record import Device

BANDWIDTH = "copy_bytes_per_s"
"""Bytes read plus bytes written per second of a large copy within the device's memory."""
LAUNCH = "launch_ns"
"""Time of one more small kernel in a row of them, launched by torch; on a CPU, of one small operation."""
NOOP = "noop_ns"
NOOP_SPREAD = "noop_spread_ns"
"""A call of nothing by the sealed clock: median, and half the distance from the 10th to the 90th percentile."""
FLOPS = "flops_"
"""`flops_fp16`, `flops_tf32`, …: flop per second of a large matrix product, by `harness.boards.board.Precision`."""


@dataclass(frozen=True)
class DeviceCalibration:
    """Figures by name; what this device can't do is left out."""

    device: Device
    figures: Mapping[str, float]
    created_at: datetime
    versions: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def rates(self) -> dict[str, float]:
        """Flop per second by precision."""
        return {name.removeprefix(FLOPS): rate for name, rate in self.figures.items() if name.startswith(FLOPS)}

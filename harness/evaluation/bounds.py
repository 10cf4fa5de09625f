"""What a case's time is held against: its work, the speed of light for that, and a floor that no time can be below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.boards.board import Board, Work
from harness.boards.reference import Reference
from harness.evaluation.record import CaseResult, Reason, ReasonCode, Status
from harness.measure.speed_of_light import Peaks, floor_ns, speed_of_light_ns
from harness.measure.statistics import case_figure


def with_bounds(base: CaseResult, board: Board, reference: Reference, peaks: Peaks | None, data: Any) -> CaseResult:
    """Add the case's work, speed of light and floor, where the board states them and the device is known."""
    settings, spec = board.settings, base.spec

    def bound(work: Work | None, rule: Callable[..., float | None]) -> tuple[float | None, float | None, float | None]:
        if work is None:
            return None, None, None
        flops, bytes_moved = reference.work(work, data, spec)
        return flops, bytes_moved, rule(flops, bytes_moved, work.precision, peaks)

    flops, bytes_moved, light = bound(settings.speed_of_light, speed_of_light_ns)
    _, _, floor = bound(settings.floor, floor_ns)
    return replace(base, flops=flops, bytes_moved=bytes_moved, speed_of_light_ns=light, floor_ns=floor)


def below_floor(result: CaseResult) -> CaseResult:
    """Reject a median that no work could have had."""
    figure = case_figure(result.samples)
    if figure is None or result.floor_ns is None or figure.value_ns >= result.floor_ns:
        return result
    text = (
        f"measured {figure.value_ns / 1e3:.3f} µs, below the floor of {result.floor_ns / 1e3:.3f} µs: the compulsory "
        "traffic and arithmetic of this case take longer on this device"
    )
    return replace(result, status=Status.REJECTED, reason=Reason(ReasonCode.BELOW_FLOOR, text))

"""The lines of what was calibrated: `device_calibration`, and `noise_calibration` for the noise between runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harness.boards.board import GridName
from harness.calibrating.record import DeviceCalibration
from harness.evaluation.record import Device, Protocol
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.store import codec
from harness.store.calibrations import Calibration
from harness.transfer.documents import is_number
from harness.transfer.errors import RowError, word_of
from harness.transfer.fields import Fields, dumps, fields_of

DEVICE = "device_calibration"
NOISE = "noise_calibration"
TABLES = {DEVICE: "device_calibrations", NOISE: "noise_calibrations"}
_JSON = ("device_details", "figures", "versions", "state", "scores_ns")


def line_of(kind: str, row: Mapping[str, Any]) -> str:
    """The line of a row of the kind's table."""
    return dumps({"kind": kind, **fields_of(row, ("id",), _JSON)})


def calibration_of(kind: str, fields: Fields) -> Calibration:
    """The calibration of a line. Raises RowError saying which field is wrong and how."""
    if kind == DEVICE:
        return _device(fields)
    if kind == NOISE:
        return _noise(fields)
    raise RowError(f"its kind is {kind[:40]!r} (allowed: submission, {DEVICE}, {NOISE})")


def _device(fields: Fields) -> DeviceCalibration:
    figures = fields.get("figures", dict)
    if not all(_is_positive(each, or_zero=True) for each in figures.values()):
        raise RowError("'figures' of the line holds something else than numbers from 0 on")
    return DeviceCalibration(
        device=Device(fields.name("device_kind"), fields.name("device_name"), fields.json("device_details", dict)),
        figures=figures,
        created_at=_moment(fields),
        versions=fields.json("versions", dict),
        state=fields.json("state", dict),
    )


def _noise(fields: Fields) -> NoiseCalibration:
    scores = fields.get("scores_ns", list)
    if not all(_is_positive(each) for each in scores):
        raise RowError("'scores_ns' of the line holds something else than positive numbers")
    try:
        key = NoiseKey(
            fields.name("device_name"),
            fields.name("leaderboard"),
            word_of(fields.text("grid"), "'grid' of the line", GridName),
            word_of(fields.text("protocol"), "'protocol' of the line", Protocol),
        )
        calibration = NoiseCalibration(key, fields.name("device_kind"), tuple(scores), _moment(fields))
        if not math.isfinite(calibration.noise.delta):
            raise RowError("'scores_ns' of the line make no noise between runs")
    except (ValueError, OverflowError) as error:
        raise RowError(str(error)) from None
    return calibration


def _is_positive(value: Any, *, or_zero: bool = False) -> bool:
    return is_number(value) and (0 < value < math.inf or (or_zero and value == 0))


def _moment(fields: Fields) -> datetime:
    moment = codec.time_of(fields.time("created_at"))
    assert moment is not None
    return moment

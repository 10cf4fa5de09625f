"""What was calibrated on which device. The newest calibration of a kind is the one that counts; all are kept.

The newest is that by its own time, then by id: an import brings older ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from harness.boards.board import GridName
from harness.calibrating.record import DeviceCalibration
from harness.evaluation.record import Device, IsolationLevel, Protocol
from harness.measure.noise import Noise, NoiseCalibration, NoiseKey
from harness.measure.ranking import RankClass
from harness.store import codec, queries
from harness.store.database import Database, Row

Calibration = DeviceCalibration | NoiseCalibration


def noise_columns(calibration: NoiseCalibration) -> codec.Columns:
    key = calibration.key
    return {
        "device_kind": calibration.device_kind,
        "device_name": key.device,
        "leaderboard": key.leaderboard,
        "grid": key.grid.value,
        "protocol": key.protocol.value,
        "scores_ns": json.dumps(calibration.scores_ns),
        "created_at": codec.time_text(calibration.created_at),
    }


def device_columns(calibration: DeviceCalibration) -> codec.Columns:
    return {
        "device_kind": calibration.device.kind,
        "device_name": calibration.device.name,
        "device_details": json.dumps(dict(calibration.device.details)),
        "figures": json.dumps(dict(calibration.figures)),
        "versions": json.dumps(dict(calibration.versions)),
        "state": json.dumps({name: dict(reading) for name, reading in calibration.state.items()}),
        "created_at": codec.time_text(calibration.created_at),
    }


def table_and_columns(calibration: Calibration) -> tuple[str, codec.Columns]:
    """The table that keeps it, and its row there without the id."""
    if isinstance(calibration, DeviceCalibration):
        return "device_calibrations", device_columns(calibration)
    return "noise_calibrations", noise_columns(calibration)


def noises(db: Database) -> dict[NoiseKey, NoiseCalibration]:
    """The newest calibration of the noise for every device, board, grid and protocol that has one."""
    found = [_noise(row) for row in db.rows(queries.NOISES)]
    return {calibration.key: calibration for calibration in found}  # oldest first: the newest stays


def latest_device(db: Database, device_name: str) -> DeviceCalibration | None:
    rows = db.rows(queries.DEVICE_CALIBRATION, {"device": device_name})
    if not rows:
        return None
    row = rows[0]
    return DeviceCalibration(
        device=Device(row["device_kind"], row["device_name"], json.loads(row["device_details"])),
        figures=json.loads(row["figures"]),
        created_at=_moment(row),
        versions=json.loads(row["versions"]),
        state=json.loads(row["state"]),
    )


def calibrated(rank_class: RankClass, known: Mapping[NoiseKey, NoiseCalibration]) -> RankClass:
    """The same class with the noise that was calibrated for it, if it was."""
    noise = noise_for(rank_class, known)
    return rank_class if noise is None else replace(rank_class, noise=noise)


def noise_for(rank_class: RankClass, known: Mapping[NoiseKey, NoiseCalibration]) -> Noise | None:
    key = NoiseKey(rank_class.device, rank_class.leaderboard, rank_class.grid, rank_class.protocol)
    return known[key].noise if key in known else None


def rank_class_of(row: Row) -> RankClass:
    """The rank class of a row that has its columns, without its noise."""
    return RankClass(
        leaderboard=row["leaderboard"],
        grid=GridName(row["grid"]),
        device_kind=row["device_kind"],
        device=row["device_name"],
        protocol=Protocol(row["protocol"]),
        isolation=IsolationLevel(row["isolation"]),
        benchmarks=row["benchmarks"],
    )


def delta_of_row(db: Database, row: Row) -> float:
    """δ for the rank class of such a row, now."""
    rank_class = rank_class_of(row)
    columns = {name: row[name] for name in ("device_name", "leaderboard", "grid", "protocol")}
    found = [_noise(each) for each in db.rows(queries.NOISES_OF_CLASS, columns)]
    return calibrated(rank_class, {each.key: each for each in found}).delta


def _noise(row: Row) -> NoiseCalibration:
    key = NoiseKey(row["device_name"], row["leaderboard"], GridName(row["grid"]), Protocol(row["protocol"]))
    return NoiseCalibration(key, row["device_kind"], tuple(json.loads(row["scores_ns"])), _moment(row))


def _moment(row: Any) -> datetime:
    moment = codec.time_of(row["created_at"])
    assert moment is not None
    return moment

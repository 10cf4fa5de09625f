"""The rows of the tables as the records that readers get; what takes further reads is made in `reading`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness.evaluation.record import Mode, Status
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.measure.ranking import RankClass
from harness.store import calibrations, codec, standings
from harness.store.rows import HistoryRow, Note, SubmissionRow


def submission_row(row: codec.Row) -> SubmissionRow:
    created_at = codec.time_of(row["created_at"])
    assert created_at is not None
    return SubmissionRow(
        id=row["id"],
        leaderboard=row["leaderboard"],
        user=row["user_name"],
        file_name=row["file_name"],
        sha256=row["source_sha256"],
        created_at=created_at,
        gpus=tuple(json.loads(row["gpus"])),
        previous=row["previous"],
        imported=row["published"] is not None,
    )


def note_of(row: codec.Row) -> Note:
    created_at = codec.time_of(row["created_at"])
    assert created_at is not None
    return Note(row["id"], created_at, row["text"])


def history_row(
    row: codec.Row, known: Mapping[NoiseKey, NoiseCalibration], classes: dict[tuple[str, ...], RankClass]
) -> HistoryRow:
    created_at = codec.time_of(row["created_at"])
    assert created_at is not None
    evaluated = row["evaluation_id"] is not None
    rank_class = None
    if evaluated:
        key = tuple(row[name] for name in standings.CLASS_KEY[:-1])
        rank_class = classes.get(key)
        if rank_class is None:
            rank_class = classes[key] = calibrations.calibrated(calibrations.rank_class_of(row), known)
    return HistoryRow(
        id=row["id"],
        leaderboard=row["leaderboard"],
        user=row["user_name"],
        file_name=row["file_name"],
        sha256=row["source_sha256"],
        created_at=created_at,
        evaluation_id=row["evaluation_id"],
        mode=Mode(row["mode"]) if evaluated else None,
        status=Status(row["status"]) if evaluated else None,
        reason=codec.reason_of(row, "reason"),
        rank_reason=codec.reason_of(row, "rank_reason"),
        rank_class=rank_class,
        interpreted=bool(row["interpreted"]),
        score=codec.score_of(row),
        rank_then=row["rank_then"],
    )

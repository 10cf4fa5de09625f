"""Records to column values and back, without loss. Used by the writer and the reader alike.

Mappings and sequences are JSON text, so that every database and driver gives back the same; the seed is text because
it has more than 64 bits; times are UTC in ISO 8601 with microseconds, which sort as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.boards.board import CaseValue, GridName, RankBy
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    Device,
    EvaluationHeader,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Protocol,
    Reason,
    ReasonCode,
    Samples,
    Status,
    StopRule,
)
from harness.measure.statistics import Figure, Interval

Columns = dict[str, Any]
Row = Mapping[str, Any]


def header_columns(header: EvaluationHeader) -> Columns:
    return {
        "mode": header.mode.value,
        "protocol": header.protocol.value,
        "grid": header.grid.value,
        "ranking_by": header.ranking_by.value,
        "device_kind": header.device.kind,
        "device_name": header.device.name,
        "device_details": json.dumps(dict(header.device.details)),
        "isolation": header.isolation.value,
        "interpreted": header.interpreted,
        "seed": str(header.seed),
        "versions": json.dumps(dict(header.versions)),
        "log": storable_text(header.log),
        "cases_planned": header.cases_planned,
    }


def header_of(row: Row) -> EvaluationHeader:
    return EvaluationHeader(
        mode=Mode(row["mode"]),
        protocol=Protocol(row["protocol"]),
        grid=GridName(row["grid"]),
        device=Device(row["device_kind"], row["device_name"], json.loads(row["device_details"])),
        isolation=IsolationLevel(row["isolation"]),
        interpreted=bool(row["interpreted"]),
        seed=int(row["seed"]),
        versions=json.loads(row["versions"]),
        log=row["log"],
        cases_planned=row["cases_planned"],
        ranking_by=RankBy(row["ranking_by"]),
    )


def outcome_columns(outcome: EvaluationOutcome) -> Columns:
    return {
        "status": outcome.status.value,
        **_reason_columns("reason", outcome.reason),
        **_reason_columns("rank_reason", outcome.rank_reason),
        "phases_s": json.dumps(dict(outcome.phases_s)),
        "state": json.dumps({name: dict(reading) for name, reading in outcome.state.items()}),
    }


def outcome_of(row: Row) -> EvaluationOutcome:
    return EvaluationOutcome(
        status=Status(row["status"]),
        reason=reason_of(row, "reason"),
        rank_reason=reason_of(row, "rank_reason"),
        phases_s=json.loads(row["phases_s"]),
        state=json.loads(row["state"] or "{}"),
    )


def case_columns(case: CaseResult) -> Columns:
    samples = case.samples
    return {
        "kind": case.kind.value,
        "idx": case.index,
        "spec": json.dumps(dict(case.spec)),
        "status": case.status.value,
        **_reason_columns("reason", case.reason),
        "traceback": storable_text(case.traceback),
        "wall_ns": None if samples is None else json.dumps(samples.wall_ns),
        "overhead_ns": None if samples is None else json.dumps(samples.overhead_ns),
        "events_ns": None if samples is None else json.dumps(samples.events_ns),
        "workers": None if samples is None else samples.workers,
        "stop_rule": None if case.stop_rule is None else case.stop_rule.value,
        "flops": case.flops,
        "bytes_moved": case.bytes_moved,
        "speed_of_light_ns": case.speed_of_light_ns,
        "floor_ns": case.floor_ns,
        "notes": json.dumps(case.notes),
        "seconds": case.seconds,
    }


def case_of(row: Row) -> CaseResult:
    return CaseResult(
        kind=CaseKind(row["kind"]),
        index=row["idx"],
        spec={key: _case_value(value) for key, value in json.loads(row["spec"]).items()},
        status=Status(row["status"]),
        reason=reason_of(row, "reason"),
        traceback=row["traceback"],
        samples=_samples_of(row),
        stop_rule=None if row["stop_rule"] is None else StopRule(row["stop_rule"]),
        flops=row["flops"],
        bytes_moved=row["bytes_moved"],
        speed_of_light_ns=row["speed_of_light_ns"],
        floor_ns=row["floor_ns"],
        notes=tuple(json.loads(row["notes"])),
        seconds=row["seconds"],
    )


def score_columns(score: Figure | None) -> Columns:
    interval = None if score is None else score.interval_ns
    return {
        "score_ns": None if score is None else score.value_ns,
        "score_low_ns": None if interval is None else interval.low,
        "score_high_ns": None if interval is None else interval.high,
    }


def score_of(row: Row) -> Figure | None:
    if row["score_ns"] is None:
        return None
    has_interval = row["score_low_ns"] is not None
    return Figure(row["score_ns"], Interval(row["score_low_ns"], row["score_high_ns"]) if has_interval else None)


def reason_of(row: Row, prefix: str) -> Reason | None:
    code = row[f"{prefix}_code"]
    return None if code is None else Reason(ReasonCode(code), row[f"{prefix}_message"])


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def storable_text(text: str) -> str:
    r"""The text with what a database can't hold, NUL and lone surrogates, spelled out as `\x00` and `\udc80`.

    Messages and tracebacks come from submissions, which may put anything into them.
    """
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _reason_columns(prefix: str, reason: Reason | None) -> Columns:
    return {
        f"{prefix}_code": None if reason is None else reason.code.value,
        f"{prefix}_message": None if reason is None else storable_text(reason.message),
    }


def _samples_of(row: Row) -> Samples | None:
    if row["wall_ns"] is None:
        return None
    return Samples(
        wall_ns=tuple(json.loads(row["wall_ns"])),
        overhead_ns=tuple(json.loads(row["overhead_ns"])),
        events_ns=tuple(json.loads(row["events_ns"])),
        workers=row["workers"] or 1,
    )


def _case_value(value: Any) -> CaseValue:
    """JSON has no tuples: every sequence of a case is one."""
    return tuple(_case_value(item) for item in value) if isinstance(value, list) else value

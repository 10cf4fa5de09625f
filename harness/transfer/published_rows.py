"""Submissions of the store as rows of the published competition data: those that came as such rows as they came."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from harness.evaluation.record import Status
from harness.store import codec, standings
from harness.transfer.errors import RowError
from harness.transfer.published import (
    COLUMNS,
    EPOCH,
    OF_THE_RUN,
    OF_THE_SUBMISSION,
    check_run,
    check_submission,
)

_STATUS_WORD = {
    Status.PASSED: "succeeded",
    Status.TIMEOUT: "timed_out",
    Status.RUNNING: "running",
}


def rows_of(submission: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of a submission, one for each evaluation; both as the tables have them, the submission with its text.

    Values in the order of `COLUMNS`, `submission_time` in microseconds. Ids that only the hosted service gives are
    derived from what they stand for: equal for equal code, board or user.
    """
    names = _kept(submission["published"], check_submission) or {
        "submission_id": submission["id"],
        "leaderboard_id": _number(submission["leaderboard"]),
        "user_id": submission["user_name"],
        "user_name": submission["user_name"],
        "code_id": int(submission["source_sha256"][:15], 16),
        "file_name": submission["file_name"],
    }
    if evaluations:
        runs = [_run(evaluation) for evaluation in evaluations]
    else:
        runs = [{name: names.get(name) for name in OF_THE_RUN}]
    created_at = codec.time_of(submission["created_at"])
    assert created_at is not None
    shared = {
        **{name: names.get(name) for name in OF_THE_SUBMISSION},
        "problem_name": submission["leaderboard"],
        "submission_time": (created_at - EPOCH) // timedelta(microseconds=1),
        "code": submission["text"],
    }
    return [tuple({**shared, **run}[name] for name in COLUMNS) for run in runs]


def _run(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    kept = _kept(evaluation["published"], check_run)
    if kept is not None:
        return {name: kept.get(name) for name in OF_THE_RUN}
    status = Status(evaluation["status"])
    # The schema has no word for a score that does not rank: it would be read as one that does.
    score_ns = evaluation["score_ns"] if standings.ranks(evaluation) else None
    return {
        "status": _STATUS_WORD.get(status, "failed"),
        "score": None if score_ns is None else score_ns / 1e9,
        "passed": None if status is Status.RUNNING else status is Status.PASSED,
        "mode": evaluation["mode"],
        "runner": evaluation["device_name"],
    }


def _kept(text: str | None, check: Callable[[object], None]) -> dict[str, Any] | None:
    """What was kept of a row; None where nothing was, or something that no file takes."""
    if not text:
        return None
    try:
        kept: dict[str, Any] = json.loads(text)
        check(kept)
    except (ValueError, RecursionError, RowError):
        return None
    return kept


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)

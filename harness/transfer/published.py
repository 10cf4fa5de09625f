"""Rows of the published competition data as submissions. (The way back: `published_rows`.)

The columns are those of the hosted service's export. Scores are seconds; the file has one row for each submission and
runner. What we make of a row keeps the row's own fields beside it, so that it is exported as it came.

An imported result has the protocol `hosted`, whoever wrote the file: our own export has this schema too. It is a score
that somebody claims, with no samples to check it by.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from harness.boards.board import GridName
from harness.evaluation.record import (
    Device,
    EvaluationHeader,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Protocol,
    Reason,
    ReasonCode,
    Status,
)
from harness.store import codec
from harness.store.bulk import NewEvaluation, NewSubmission
from harness.transfer.documents import is_number, is_text
from harness.transfer.errors import (
    LONGEST_NS,
    SHORTEST_NS,
    RowError,
    check_characters,
    name_of,
    not_allowed,
    text_of,
    word_of,
)

COLUMNS = (
    "submission_id",
    "leaderboard_id",
    "problem_name",
    "user_id",
    "user_name",
    "code_id",
    "file_name",
    "submission_time",
    "status",
    "score",
    "passed",
    "mode",
    "runner",
    "code",
)
REQUIRED = ("submission_id", "problem_name", "user_id", "submission_time", "code")
ORIGIN = "published"
OF_THE_SUBMISSION = ("submission_id", "leaderboard_id", "user_id", "user_name", "code_id", "file_name")
OF_THE_RUN = ("status", "score", "passed", "mode", "runner")
_STATUS = {
    "succeeded": Status.PASSED,
    "failed": Status.FAILED,
    "timed_out": Status.TIMEOUT,
    "timeout": Status.TIMEOUT,
    "error": Status.ERROR,
    "running": Status.INTERRUPTED,
    "pending": Status.INTERRUPTED,
}
"""What has not ended there never ends here."""
_IMPORTED = Reason(ReasonCode.IMPORTED, "imported from a parquet file; it was neither measured nor checked here")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = 2**63


def submission_of(row: Sequence[Any]) -> NewSubmission:
    """The submission of a row: values in the order of `COLUMNS`, `submission_time` in microseconds since 1970 UTC.

    Raises RowError saying which column is wrong and how.
    """
    (number, board_id, problem, user_id, user_name, code_id, file_name, time_us, status, score, passed, mode, runner,
     code) = row  # fmt: skip
    if isinstance(number, bool) or not isinstance(number, int):
        raise RowError(f"submission_id is {number!r}, not a whole number")
    created_at = _time_text(time_us)
    score = _score(score)
    _check_status(status)
    origin = f"{ORIGIN}/{number}/{time_us}"
    names = f"{number}", _text(board_id), _text(user_id), _text(user_name), _number_text(code_id), _text(file_name)
    evaluations: Sequence[NewEvaluation]
    if mode is None:
        run = _text(status), _number_text(score), _text(passed), _text(mode), _text(runner)
        kept, evaluations = _SUBMISSION_AND_RUN % (*names, *run), ()
    else:
        kept = _SUBMISSION % names
        shared, kept_run = _shared_columns(status, passed, mode, runner)
        score_ns = score * 1e9 if score is not None and shared["status"] == "passed" else None
        run_origin = f"{origin}/{mode}/{runner}"
        evaluations = (
            NewEvaluation(
                run_origin,
                shared,
                created_at,
                None if shared["status"] == "interrupted" else created_at,
                score_ns,
                kept_run % _number_text(score),
            ),
        )
    return NewSubmission(
        origin,
        _name(problem, "problem_name"),
        _name(user_name or user_id, "user_name"),
        text_of(file_name, "file_name", empty=True) if file_name else "submission.py",
        text_of(code, "code", empty=True),
        created_at,
        f"[{_text(runner)}]" if runner else "[]",
        kept,
        evaluations,
    )


def submission_id_of(row: object) -> int | None:
    """What names a row in its file, however bad the rest of it is; None where it has no such number, as a line has."""
    number = row[0] if isinstance(row, tuple) and row else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def check_submission(kept: object) -> None:
    """Raise RowError unless these are a row's own fields, as `submission_of` keeps them with the submission."""
    _check_kept(kept, OF_THE_SUBMISSION)
    if isinstance(kept, dict) and not kept.keys().isdisjoint(OF_THE_RUN):  # of a row without a run
        check_run(kept)


def check_run(kept: object) -> None:
    """Raise RowError unless these are a row's own fields, as `submission_of` keeps them with the evaluation."""
    _check_kept(kept, OF_THE_RUN)


def _check_kept(kept: object, names: Sequence[str]) -> None:
    if not isinstance(kept, dict):
        raise RowError("'published' is not an object")
    for name in names:
        value = kept.get(name)
        if not (_FITS.get(name, is_text)(value) or (value is None and name != "submission_id")):
            raise RowError(f"'published' holds a {name} that no published row has")
        if isinstance(value, str):
            check_characters(value, f"{name} of 'published'")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64


def _is_seconds(value: Any) -> bool:
    return is_number(value) and abs(value) <= sys.float_info.max


_FITS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("submission_id", "leaderboard_id", "code_id"), _is_id),
    "score": _is_seconds,
    "passed": lambda value: isinstance(value, bool),
}


def _template(names: tuple[str, ...]) -> str:
    """JSON text of an object but for its values; faster than `json.dumps` where texts come again and again."""
    return "{" + ", ".join(f'"{name}": %s' for name in names) + "}"


_SUBMISSION, _RUN = _template(OF_THE_SUBMISSION), _template(OF_THE_RUN)
_SUBMISSION_AND_RUN = _template(OF_THE_SUBMISSION + OF_THE_RUN)


def _number_text(value: object) -> str:
    kind = type(value)
    return repr(value) if kind is int or kind is float else _text(value)  # a score is finite


@lru_cache(maxsize=8192, typed=True)
def _text(value: object) -> str:
    return json.dumps(value)


_name = lru_cache(maxsize=8192, typed=True)(name_of)


@lru_cache(maxsize=1024, typed=True)
def _shared_columns(word: Any, passed: bool | None, mode_name: str, runner: Any) -> tuple[codec.Columns, str]:
    """The columns of results that differ by score and time, and what is kept of their rows: a template that takes the
    text of the score."""
    mode = word_of(mode_name, "mode", Mode)
    status, reason = _ending(word, passed)
    kept_word, kept_passed, kept_mode, kept_runner = (
        _text(value).replace("%", "%%") for value in (word, passed, mode_name, runner)
    )
    header = EvaluationHeader(
        mode=mode,
        protocol=Protocol.HOSTED,
        grid=GridName.FULL,
        device=Device("gpu", name_of(runner or "unknown", "runner")),
        isolation=IsolationLevel.UNKNOWN,
        interpreted=False,
        seed=0,
        versions={},
        log="",
        cases_planned=0,
    )
    columns = {
        **codec.header_columns(header),
        **codec.outcome_columns(EvaluationOutcome(status, reason, _IMPORTED)),
        "score_low_ns": None,
        "score_high_ns": None,
        "benchmarks": "",
        **ENDED_ELSEWHERE,
        "rank_then": None,
    }
    return columns, _RUN % (kept_word, "%s", kept_passed, kept_mode, kept_runner)


def _check_status(word: object) -> None:
    """Raise RowError for a word that no published row has; a row may have none."""
    if word is not None and not (isinstance(word, str) and word in _STATUS):
        raise not_allowed(word, "status", _STATUS)


def _ending(word: str | None, passed: bool | None) -> tuple[Status, Reason | None]:
    """How a run ended, by the row's two words on it. `passed` is of this run, `status` of its whole job: the first
    decides whether it passed, the second tells how it did not."""
    status = Status.FAILED if word is None else _STATUS[word]
    if passed:
        status = Status.PASSED
    elif passed is False and status is Status.PASSED:
        status = Status.FAILED
    if status is Status.PASSED:
        return status, None
    if status is Status.INTERRUPTED:
        return status, Reason(ReasonCode.INTERRUPTED, f"it was {word} when the file was written")
    if word is None or _STATUS[word] is Status.PASSED:
        says = "that it did not pass" if passed is False else "neither that it passed nor why it did not"
    else:
        says = f"'{word}'"
    return status, Reason(ReasonCode.IMPORTED, f"the file that it was imported from says {says}; it gives no reason")


ENDED_ELSEWHERE: dict[str, Any] = {"host": "", "pid": 0, "process_start": ""}
"""Of an evaluation that no process here ran."""


def _time_text(time_us: object) -> str:
    """As codec.time_text has it; put together, since days and minutes come again and again."""
    if not isinstance(time_us, int):
        raise RowError("submission_time is missing")
    minutes, of_minute_us = divmod(time_us, 60_000_000)
    days, minute = divmod(minutes, 1440)
    try:
        return f"{_day_text(days)}T{_minute_text(minute)}:{of_minute_us // 1_000_000:02}.{of_minute_us % 1_000_000:06}Z"
    except OverflowError:
        raise RowError(f"submission_time is {time_us} µs after 1970, which no calendar has") from None


@lru_cache(maxsize=8192)
def _day_text(days: int) -> str:
    return (EPOCH.date() + timedelta(days=days)).isoformat()


@lru_cache(maxsize=1440)
def _minute_text(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _score(score: object) -> float | None:
    """Seconds. Tools that know no missing numbers write NaN for them."""
    if score is None or (isinstance(score, float) and math.isnan(score)):
        return None
    if not isinstance(score, int | float) or not 0 < score < math.inf:
        raise RowError(f"score is {score!r}, not a positive number of seconds")
    if not SHORTEST_NS <= score * 1e9 <= LONGEST_NS:
        raise RowError(f"score is {score!r} seconds (allowed: 1e-12 to 9e9)")
    return float(score)

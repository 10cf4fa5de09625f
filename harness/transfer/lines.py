"""JSON lines: everything that the store holds of a submission in one line, so that a line that is bad harms no other.

The first line names the format. Then one object a line: the calibrations (`calibration_lines`), and the submissions,
each with its source, what compile mode said of that, notes, tags, and evaluations with their cases and raw samples.
Scores are written for other programs; read back, they are derived anew from the samples.

Field names are those of the tables. What the tables keep as JSON text is JSON here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from harness.boards.board import GridName, RankBy
from harness.evaluation.record import (
    CaseKind,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Protocol,
    Reason,
    ReasonCode,
    Status,
    StopRule,
)
from harness.measure.scoring import benchmarks_digest, evaluation_score
from harness.measure.statistics import Figure
from harness.store import codec
from harness.store.bulk import NewCompilation, NewEvaluation, NewSubmission
from harness.store.calibrations import Calibration
from harness.transfer import calibration_lines
from harness.transfer.documents import check_kind
from harness.transfer.errors import LONGEST_NS, SHORTEST_NS, RowError, name_of, text_of, word_of
from harness.transfer.fields import Fields, document_of, dumps, fields_of
from harness.transfer.published import ENDED_ELSEWHERE, check_run, check_submission

FORMAT = 3
FORMATS = (1, 2, 3)
"""The formats that are read. The first has neither kinds of lines, nor compilations and calibrations; the third has
`workers`, without which the samples of several processes would be read as those of one."""
KIND = "harness-submissions"
MOST_WORKERS = 1024
SUBMISSION = "submission"
_JSON = frozenset(
    ("gpus", "published", "device_details", "versions", "phases_s", "state", "spec", "wall_ns", "overhead_ns",
     "events_ns", "notes", "report")
)  # fmt: skip
_NOT_OF_THE_SUBMISSION = ("id", "source_sha256", "text", "origin")
_NOT_OF_THE_EVALUATION = ("id", "submission_id", "origin", "host", "pid", "process_start", "benchmarks")
_NOT_OF_THE_CASE = ("id", "evaluation_id")
_LEFT_BEHIND = "it was running when it was exported"


def first_line(store_id: str) -> str:
    return dumps({"kind": KIND, "format": FORMAT, "store": store_id})


def line_of(
    store_id: str,
    submission: Mapping[str, Any],
    evaluations: Sequence[Mapping[str, Any]],
    cases: Mapping[int, Sequence[Mapping[str, Any]]],
    notes: Sequence[Mapping[str, Any]],
    tags: Sequence[str],
    compilations: Sequence[Mapping[str, Any]],
) -> str:
    """The line of a submission from its rows; `cases` by the evaluation's id, `compilations` of its source."""
    document = {
        "kind": SUBMISSION,
        "origin": _origin(store_id, submission),
        **_fields(submission, _NOT_OF_THE_SUBMISSION),
        "source": submission["text"],
        "notes": [{"created_at": note["created_at"], "text": note["text"]} for note in notes],
        "tags": list(tags),
        "compilations": [_fields(each, ("source_sha256",)) for each in compilations],
        "evaluations": [
            {
                "origin": _origin(store_id, evaluation),
                **_fields(evaluation, _NOT_OF_THE_EVALUATION),
                "cases": [_fields(case, _NOT_OF_THE_CASE) for case in cases.get(evaluation["id"], ())],
            }
            for evaluation in evaluations
        ],
    }
    return dumps(document)


def is_first_line(line: str) -> bool:
    """Whether a line names the format. Raises RowError for one of a newer format."""
    try:
        document = document_of(line).document
    except RowError:
        return False
    if document.get("kind") != KIND:
        return False
    if document.get("format") not in FORMATS:
        read = f"{FORMATS[0]} to {FORMATS[-1]}"
        raise RowError(f"the file has format {document.get('format')}; this harness reads formats {read}")
    return True


def record_of(line: str | None) -> NewSubmission | Calibration:
    """The submission or the calibration of a line; None is one that is too long. Raises RowError saying which field is
    wrong and how."""
    fields = document_of(line)
    kind = fields.text("kind") if "kind" in fields.document else SUBMISSION
    try:
        if kind == SUBMISSION:
            return _submission(fields)
        return calibration_lines.calibration_of(kind, fields)
    except RecursionError:
        raise RowError("it is nested too deeply") from None


def _submission(fields: Fields) -> NewSubmission:
    published = fields.optional("published", dict)
    if published is not None:
        check_submission(published)
    return NewSubmission(
        origin=fields.name("origin"),
        leaderboard=fields.name("leaderboard"),
        user=fields.name("user_name"),
        file_name=fields.text("file_name", empty=True),
        source_text=fields.text("source", empty=True),
        created_at=fields.time("created_at"),
        gpus=json.dumps([text_of(gpu, "gpus") for gpu in fields.get("gpus", list)]),
        published=None if published is None else json.dumps(published),
        evaluations=[_evaluation(Fields(each, "an evaluation")) for each in fields.get("evaluations", list)],
        notes=[
            (note.time("created_at"), note.text("text", empty=True))
            for note in (Fields(each, "a note") for each in fields.get("notes", list))
        ],
        tags=[name_of(tag, "tags") for tag in fields.get("tags", list)],
        compilations=[
            _compilation(Fields(each, "a compilation")) for each in fields.optional("compilations", list) or ()
        ],
    )


def _compilation(fields: Fields) -> NewCompilation:
    # Its parts are read when it is shown: what another version of harness said goes through as it is.
    return NewCompilation(
        fields.name("leaderboard", empty=True),
        fields.name("architecture"),
        json.dumps(fields.json("report", dict)),
        fields.time("created_at"),
    )


_EVALUATION: dict[str, tuple[type, ...]] = {
    "mode": (str,),
    "protocol": (str,),
    "grid": (str,),
    "ranking_by": (str,),
    "device_kind": (str,),
    "device_name": (str,),
    "device_details": (dict,),
    "isolation": (str,),
    "interpreted": (bool, int),
    "seed": (str,),
    "versions": (dict,),
    "log": (str,),
    "cases_planned": (int,),
    "status": (str,),
    "phases_s": (dict,),
}
_CASE: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "idx": (int,),
    "spec": (dict,),
    "status": (str,),
    "traceback": (str,),
    "notes": (list,),
    "seconds": (int, float),
}
_OPTIONAL: dict[str, tuple[type, ...]] = {
    "reason_code": (str,),
    "reason_message": (str,),
    "rank_reason_code": (str,),
    "rank_reason_message": (str,),
    "state": (dict,),
    "wall_ns": (list,),
    "overhead_ns": (list,),
    "events_ns": (list,),
    "workers": (int,),
    "stop_rule": (str,),
    "flops": (int, float),
    "bytes_moved": (int, float),
    "speed_of_light_ns": (int, float),
    "floor_ns": (int, float),
}
_WORDS: dict[str, type[StrEnum]] = {
    "kind": CaseKind,
    "mode": Mode,
    "protocol": Protocol,
    "grid": GridName,
    "ranking_by": RankBy,
    "isolation": IsolationLevel,
    "status": Status,
    "reason_code": ReasonCode,
    "rank_reason_code": ReasonCode,
    "stop_rule": StopRule,
}


def _evaluation(fields: Fields) -> NewEvaluation:
    row = _row(fields, _EVALUATION, "an evaluation")
    case_rows = [_row(Fields(each, "a case"), _CASE, "a case") for each in fields.get("cases", list)]
    header = _made(codec.header_of, row)
    outcome: EvaluationOutcome = _made(codec.outcome_of, row)
    cases = [_made(codec.case_of, each) for each in case_rows]
    if len({(case.kind, case.index) for case in cases}) < len(cases):
        raise RowError("an evaluation has two cases of one kind and index")
    if outcome.status is Status.RUNNING:
        outcome = EvaluationOutcome(Status.INTERRUPTED, Reason(ReasonCode.INTERRUPTED, _LEFT_BEHIND))
    published = fields.optional("published", dict)
    if published is not None:
        check_run(published)
    started_at = fields.time("started_at")
    score: Figure | None
    if header.protocol is Protocol.HOSTED:
        score_ns = fields.optional("score_ns", float, int)
        if score_ns is not None and not SHORTEST_NS <= score_ns <= LONGEST_NS:
            raise RowError(f"'score_ns' of an evaluation is {score_ns} (allowed: 0.001 to 2⁶³)")
        score = None if score_ns is None else Figure(float(score_ns), None)
    else:
        try:
            score = evaluation_score(header, outcome, cases)
        except (TypeError, ArithmeticError) as error:
            raise RowError(f"the samples of an evaluation make no score: {error}") from None
    columns = {
        **_made(codec.header_columns, header),
        **_made(codec.outcome_columns, outcome),
        **codec.score_columns(score),
        "benchmarks": benchmarks_digest(cases),
        **ENDED_ELSEWHERE,
        "rank_then": _small(fields.optional("rank_then", int), "rank_then"),
    }
    return NewEvaluation(
        fields.text("origin"),
        columns,
        started_at,
        None if fields.document.get("finished_at") is None else fields.time("finished_at"),
        columns.pop("score_ns"),
        None if published is None else json.dumps(published),
        [_made(codec.case_columns, case) for case in cases],
    )


_NAMES = ("device_kind", "device_name")
_MEASURES = ("seconds", "flops", "bytes_moved", "speed_of_light_ns", "floor_ns")


def _row(fields: Fields, needed: Mapping[str, tuple[type, ...]], what: str) -> dict[str, Any]:
    """The fields as a row of the tables, each of the right kind."""
    values = {name: fields.get(name, *kinds) for name, kinds in needed.items()}
    values |= {name: fields.optional(name, *kinds) for name, kinds in _OPTIONAL.items()}
    for name, value in values.items():
        if isinstance(value, str):
            (name_of if name in _NAMES else text_of)(value, name, empty=True)
        if name in ("idx", "cases_planned"):
            _small(value, name)
        if name == "workers" and value is not None and not 1 <= value <= MOST_WORKERS:
            raise RowError(f"'workers' is {value} (allowed: 1 to {MOST_WORKERS})")
        if isinstance(value, dict | list):
            check_kind(name, value, what)
        words = _WORDS.get(name)
        if words is not None and value is not None:
            word_of(value, f"'{name}' of {what}", words)
    for prefix in ("reason", "rank_reason"):
        if values[f"{prefix}_code"] is not None and values[f"{prefix}_message"] is None:
            raise RowError(f"'{prefix}_message' is missing")
    values |= {name: float(values[name]) for name in _MEASURES if values.get(name) is not None}
    return {name: json.dumps(value) if name in _JSON and value is not None else value for name, value in values.items()}


def _made(make: Callable[[Any], Any], given: Any) -> Any:
    """What `codec` makes of a row or a record."""
    try:
        return make(given)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RowError(str(error)) from None


def _small(value: int | None, name: str) -> int | None:
    if value is not None and not 0 <= value < 2**31:
        raise RowError(f"'{name}' is {value}")
    return value


def _fields(row: Mapping[str, Any], left_out: Sequence[str]) -> dict[str, Any]:
    fields = fields_of(row, left_out, _JSON)
    if "interpreted" in fields:
        fields["interpreted"] = bool(fields["interpreted"])
    return fields


def _origin(store_id: str, row: Mapping[str, Any]) -> str:
    return row["origin"] or f"{store_id}/{row['id']}"

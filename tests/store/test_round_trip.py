"""Whatever an evaluation says comes back from the store as it was."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.boards.board import GridName, RankBy
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
from harness.measure.scoring import evaluation_score
from harness.store import EvaluationRow, Store, SubmissionRow, open_reader
from harness.store.codec import case_columns, case_of, storable_text

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
NUMBERS = st.floats(allow_nan=False)
COUNTS = st.integers(0, 2**62)
SCALARS = st.one_of(st.integers(), NUMBERS, TEXT, st.booleans(), st.none())
CASE_VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
REASONS = st.none() | st.builds(Reason, st.sampled_from(ReasonCode), TEXT)
COLUMNS = st.lists(COUNTS, max_size=8).map(tuple)
CASES = st.builds(
    CaseResult,
    kind=st.sampled_from(CaseKind),
    index=st.integers(0, 1000),
    spec=st.dictionaries(TEXT, CASE_VALUES, max_size=4),
    status=st.sampled_from(Status),
    reason=REASONS,
    traceback=TEXT,
    samples=st.none() | st.builds(Samples, COLUMNS, COLUMNS, COLUMNS),
    stop_rule=st.none() | st.sampled_from(StopRule),
    flops=st.none() | NUMBERS,
    bytes_moved=st.none() | NUMBERS,
    speed_of_light_ns=st.none() | NUMBERS,
    floor_ns=st.none() | NUMBERS,
    notes=st.lists(TEXT, max_size=3).map(tuple),
    seconds=NUMBERS,
)
HEADERS = st.builds(
    EvaluationHeader,
    mode=st.sampled_from(Mode),
    protocol=st.sampled_from(Protocol),
    grid=st.sampled_from(GridName),
    device=st.builds(Device, TEXT, TEXT, st.dictionaries(TEXT, TEXT | st.integers() | NUMBERS, max_size=3)),
    isolation=st.sampled_from(IsolationLevel),
    interpreted=st.booleans(),
    seed=st.integers(0, 2**128),
    versions=st.dictionaries(TEXT, TEXT, max_size=3),
    log=TEXT,
    cases_planned=st.integers(0, 10**6),
    ranking_by=st.sampled_from(RankBy),
)
OUTCOMES = st.builds(
    EvaluationOutcome,
    status=st.sampled_from(Status),
    reason=REASONS,
    rank_reason=REASONS,
    phases_s=st.dictionaries(TEXT, NUMBERS, max_size=3),
)


@given(CASES)
def test_case_columns_round_trip(case: CaseResult) -> None:
    assert case_of(case_columns(case)) == case


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HEADERS, st.lists(CASES, max_size=4, unique_by=lambda case: (case.kind, case.index)), OUTCOMES)
def test_evaluations_round_trip_through_the_database(
    home: Path, header: EvaluationHeader, cases: list[CaseResult], outcome: EvaluationOutcome
) -> None:
    with Store.open() as store:
        submission_id = store.add_submission("board", "ada", "a.py", "pass\n")
        evaluation_id = store.begin_evaluation(submission_id, header)
        for case in cases:
            store.add_case(evaluation_id, case)
        store.finish_evaluation(evaluation_id, outcome)
    with open_reader() as reader:
        (row,) = reader.evaluations(submission_id)
    assert row.header == header
    assert list(row.cases) == cases
    if outcome.status is not Status.RUNNING:  # one that says so and has no live process would be interrupted
        assert row.outcome == outcome
    assert row.score == evaluation_score(header, outcome, cases)


def test_submissions(home: Path) -> None:
    before = datetime.now(UTC)
    with Store.open() as store:
        first = store.add_submission("cholesky", "ada", "á.py", "x = 'ü'\n", ["H200", "B200"])
        second = store.add_submission("cholesky", "ada", "b.py", "x = 'ü'\n")
        third = store.add_submission("cholesky", "bob", "c.py", "y = 1\n")
        fourth = store.add_submission("other", "ada", "c.py", "y = 1\n")
        fifth = store.add_submission("cholesky", "ada", "c.py", "y = 1\n")
    with open_reader() as reader:
        row = reader.submission(first)
        assert row is not None
        assert before <= row.created_at <= datetime.now(UTC)
        sha256 = hashlib.sha256("x = 'ü'\n".encode()).hexdigest()
        assert row == SubmissionRow(
            first, "cholesky", "ada", "á.py", sha256, row.created_at, ("H200", "B200"), previous=None
        )
        assert reader.source(sha256) == "x = 'ü'\n"
        rows = [reader.submission(each) for each in (second, third, fourth, fifth)]
        assert [row.previous for row in rows if row] == [first, None, None, second]
        assert reader.leaderboards() == ["cholesky", "other"]
        latest, on_other = reader.latest_submission("ada"), reader.latest_submission("ada", "other")
        assert latest is not None
        assert on_other is not None
        assert (latest.id, on_other.id) == (fifth, fourth)
        assert reader.latest_submission("eve") is None


def test_text_that_no_database_holds_is_spelled_out(home: Path) -> None:
    assert storable_text("a\x00b\udc80c") == "a\\x00b\\udc80c"
    case = CaseResult(
        CaseKind.TEST, 0, {}, Status.FAILED, Reason(ReasonCode.EXCEPTION, "\ud800"), traceback="\x00", notes=("\udfff",)
    )
    header = EvaluationHeader(
        Mode.TEST,
        Protocol.SEALED,
        GridName.CPU,
        Device("cpu", "x"),
        IsolationLevel.NONE,
        False,
        1,
        {},
        "/logs/\udcff",
        1,
    )
    with Store.open() as store:
        evaluation_id = store.begin_evaluation(store.add_submission("b", "ada", "a.py", ""), header)
        store.add_case(evaluation_id, case)
    with open_reader() as reader:
        row = reader.evaluation(evaluation_id)
    assert isinstance(row, EvaluationRow)
    assert row.cases[0].reason == Reason(ReasonCode.EXCEPTION, "\\ud800")
    assert row.cases[0].traceback == "\\x00"
    assert row.cases[0].notes == ("\udfff",)  # JSON holds it

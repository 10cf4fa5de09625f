"""The published competition data's parquet files, both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from recording import record

from harness.boards.board import GridName
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
)
from harness.store import Store, open_reader, standings
from harness.store.database import connect
from harness.store.location import location
from harness.transfer.errors import RowError
from harness.transfer.published import COLUMNS, submission_of
from harness.transfer.published_rows import rows_of

Run = Callable[..., Result]
SCHEMA = pa.schema(
    [
        ("submission_id", pa.int64()),
        ("leaderboard_id", pa.int64()),
        ("problem_name", pa.large_string()),
        ("user_id", pa.large_string()),
        ("user_name", pa.large_string()),
        ("code_id", pa.int64()),
        ("file_name", pa.large_string()),
        ("submission_time", pa.timestamp("us", tz="UTC")),
        ("status", pa.large_string()),
        ("score", pa.float64()),
        ("passed", pa.bool_()),
        ("mode", pa.large_string()),
        ("runner", pa.large_string()),
        ("code", pa.large_string()),
    ]
)
STATUS_WORDS = "succeeded, failed, timed_out, timeout, error, running, pending"
T0 = datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=UTC)


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "submission_id": number,
        "leaderboard_id": 597,
        "problem_name": "nvfp4_gemm",
        "user_id": "1001",
        "user_name": "ada",
        "code_id": number,
        "file_name": "gemm.py",
        "submission_time": T0 + timedelta(hours=number),
        "status": "succeeded",
        "score": 1.5e-05,
        "passed": True,
        "mode": "leaderboard",
        "runner": "B200",
        "code": f"# version {number}\nBLOCK = {number}\n",
        **changes,
    }


ROWS = [
    row(11, score=9.12345678901e-06),
    row(12, score=2e-05, user_id="1002", user_name="bob"),
    row(7, score=3e-05),
    row(13, score=None, passed=None, mode=None, runner=None, status="failed", user_name=""),
    row(14, score=None, passed=False, status="failed"),
    row(14, score=4e-05, runner="MI300"),
]


def write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def test_import_gives_histories_in_order_of_time(home: Path, harness: Run) -> None:
    done = harness("import", write(home / "data.parquet", ROWS))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("added 5 submissions and 5 evaluations in ")
    with open_reader() as reader:
        history = reader.history("ada", "nvfp4_gemm")
        assert [(row.file_name, row.status) for row in history] == [
            ("gemm.py", Status.PASSED),
            ("gemm.py", Status.PASSED),
            ("gemm.py", Status.FAILED),
            ("gemm.py", Status.PASSED),
        ]
        oldest, newer = history[0], history[1]
        assert oldest.score is not None
        assert oldest.score.value_ns == pytest.approx(30_000)
        assert oldest.created_at == T0 + timedelta(hours=7)
        assert oldest.id > newer.id  # the file is in another order
        submission = reader.submission(newer.id)
        assert submission is not None
        assert submission.imported
        assert submission.previous == oldest.id
        assert reader.source(submission.sha256) == "# version 11\nBLOCK = 11\n"
        (evaluation,) = reader.evaluations(newer.id)
        assert (evaluation.header.protocol, evaluation.header.isolation) == (Protocol.HOSTED, IsolationLevel.UNKNOWN)
        assert evaluation.rank is None
        assert [row.status for row in reader.history("1001")] == [None]  # no name, and no run that counts


def test_imported_scores_never_rank_with_ours(home: Path, harness: Run) -> None:
    harness("import", write(home / "data.parquet", ROWS))
    with open_reader() as reader:
        assert reader.entries("nvfp4_gemm") == []
        assert reader.unranked("nvfp4_gemm") == {ReasonCode.IMPORTED: 4}
        assert reader.best_score_ns("nvfp4_gemm", "ada") is None
    screen = harness("leaderboard", "nvfp4_gemm").stdout
    assert "not ranked: 4 imported from parquet files" in screen
    screen = harness("leaderboard", "nvfp4_gemm", "--imported").stdout
    assert "imported from a parquet file · B200 · not measured here" in screen
    document = json.loads(harness("leaderboard", "nvfp4_gemm", "--imported", "--json").stdout)
    found = {ranking["device"]: [each["user"] for each in ranking["entries"]] for ranking in document["rankings"]}
    assert found == {"B200": ["ada", "bob"], "MI300": ["ada"]}
    assert "imported" in harness("show", 1).stdout
    assert "imported" in harness("history", "nvfp4_gemm").stdout


def test_the_same_file_twice_adds_nothing(home: Path, harness: Run) -> None:
    file = write(home / "data.parquet", ROWS)
    harness("import", file)
    again = json.loads(harness("import", file, "--json").stdout)
    assert (again["submissions_added"], again["evaluations_added"], again["known"], again["bad"]) == (0, 0, 6, 0)


def test_a_later_file_adds_what_is_new(home: Path, harness: Run) -> None:
    harness("import", write(home / "first.parquet", ROWS[:5]))
    later = json.loads(harness("import", write(home / "second.parquet", [*ROWS, row(20)]), "--json").stdout)
    assert (later["submissions_added"], later["evaluations_added"], later["known"]) == (1, 2, 5)
    db = connect(location())
    with db.transaction():
        assert standings.differences(db) == []
    db.close()


def test_export_gives_the_file_back(home: Path, harness: Run) -> None:
    harness("import", write(home / "data.parquet", ROWS))
    assert harness("export", home / "back.parquet").exit_code == 0
    back = pq.read_table(home / "back.parquet")
    assert back.schema.equals(SCHEMA)

    def key(each: dict[str, Any]) -> tuple[int, str]:
        return each["submission_id"], each["runner"] or ""

    assert sorted(back.to_pylist(), key=key) == sorted(ROWS, key=key)


def test_bad_rows_are_told_and_the_rest_goes_in(home: Path, harness: Run) -> None:
    bad = [
        row(1, problem_name=None),
        row(2, code=None),
        row(3, score=-1.0),
        row(4, submission_time=None),
        row(5, mode="profile.0"),
        row(6, code="a\x00b"),
        row(7, user_id=None, user_name=None),
        row(8, score=float("inf")),
        row(9, status="exploded"),
        row(10, status="exploded", mode=None),
    ]
    done = harness("import", write(home / "data.parquet", [*ROWS[:2], *bad, *ROWS[2:]]))
    assert done.exit_code == 2
    assert "added 5 submissions" in done.stdout
    assert "10 bad" in done.stdout
    lines = [line.partition(": ")[2] for line in done.stderr.splitlines()]
    assert lines == [
        "row 3 (submission_id 1): problem_name is missing, not text",
        "row 4 (submission_id 2): code is missing, not text",
        "row 5 (submission_id 3): score is -1.0, not a positive number of seconds",
        "row 6 (submission_id 4): submission_time is missing",
        "row 7 (submission_id 5): mode is 'profile.0' (allowed: test, benchmark, leaderboard)",
        "row 8 (submission_id 6): code holds a NUL character",
        "row 9 (submission_id 7): user_name is missing, not text",
        "row 10 (submission_id 8): score is inf, not a positive number of seconds",
        f"row 11 (submission_id 9): status is 'exploded' (allowed: {STATUS_WORDS})",
        f"row 12 (submission_id 10): status is 'exploded' (allowed: {STATUS_WORDS})",
    ]
    again = json.loads(harness("import", home / "data.parquet", "--json").stdout)
    assert again["bad_rows"][0] == {
        "row": 3,
        "submission_id": 1,
        "message": "problem_name is missing, not text",
    }
    assert [each["submission_id"] for each in again["bad_rows"]] == list(range(1, 11))


def test_how_a_row_ended_is_what_its_file_says(home: Path, harness: Run) -> None:
    given: list[tuple[str | None, bool | None, Status, str | None]] = [
        ("succeeded", True, Status.PASSED, None),
        ("succeeded", None, Status.PASSED, None),
        ("failed", True, Status.PASSED, None),  # of a job whose other run failed
        ("failed", False, Status.FAILED, "the file that it was imported from says 'failed'; it gives no reason"),
        ("succeeded", False, Status.FAILED, "says that it did not pass; it gives no reason"),
        (None, None, Status.FAILED, "says neither that it passed nor why it did not"),
        ("timed_out", False, Status.TIMEOUT, "the file that it was imported from says 'timed_out'"),
        ("timed_out", None, Status.TIMEOUT, "says 'timed_out'"),
        ("error", False, Status.ERROR, "says 'error'"),
        ("running", False, Status.INTERRUPTED, "it was running when the file was written"),
        ("running", None, Status.INTERRUPTED, "it was running when the file was written"),
        ("pending", False, Status.INTERRUPTED, "it was pending when the file was written"),
    ]
    rows = [
        row(number, status=word, passed=passed, score=None) for number, (word, passed, *_) in enumerate(given, start=1)
    ]
    assert harness("import", write(home / "data.parquet", rows)).exit_code == 0

    with open_reader() as reader:
        history = reader.history("ada", "nvfp4_gemm")
    for (word, passed, status, told), kept in zip(given, history, strict=True):
        assert kept.status is status, (word, passed)
        shown = " ".join(harness("show", kept.id).stdout.split())
        assert f" {status.value.upper()} " in shown
        assert ("the file" not in shown) if told is None else (told in shown), (word, shown)
    assert harness("export", home / "back.parquet").exit_code == 0
    back = [(each["status"], each["passed"]) for each in pq.read_table(home / "back.parquet").to_pylist()]
    assert back == [(word, passed) for word, passed, *_ in given]
    assert harness("export", home / "all.jsonl").exit_code == 0
    lines = [json.loads(line) for line in (home / "all.jsonl").read_text().splitlines()[1:]]
    assert [line["evaluations"][0]["status"] for line in lines] == [status.value for _, _, status, _ in given]
    again = harness("import", home / "all.jsonl")  # which takes these words
    assert (again.exit_code, again.stderr) == (0, "")


def test_a_row_without_an_evaluation_is_shown_with_its_head(home: Path, harness: Run) -> None:
    pending = row(3, status="pending", score=None, passed=None, mode=None, runner=None)
    assert harness("import", write(home / "data.parquet", [pending])).exit_code == 0
    shown = harness("show", 1, "--no-code").stdout
    assert shown.startswith("submission 1 · nvfp4_gemm · gemm.py · ada\nsubmitted: ")
    assert "imported from a parquet file, which holds no evaluation of it" in shown
    assert "stopped" not in shown


def test_names_of_several_lines_stay_on_one(home: Path, harness: Run) -> None:
    odd = row(1, runner="B2\n00", problem_name="a\nboard", file_name="a\nb.py")
    harness("import", write(home / "data.parquet", [odd, row(2)]))
    harness("note", 1, "one\ntwo")
    shown = harness("show", 1, "--no-code").stdout
    assert "submission 1 · a\\nboard · a\\nb.py · ada" in shown
    assert "imported from a parquet file · B2\\n00 · not measured here" in shown
    assert "note 1: one\\ntwo" in shown
    of_board = harness("history", "a\nboard").stdout
    for text in ("a\\nboard · ada", "B2\\n00", "a\\nb.py", "“one\\ntwo”"):
        assert text in of_board
    ranking = harness("leaderboard", "a\nboard", "--imported").stdout
    assert "B2\\n00" in ranking
    assert "B2\\n00" in harness("history").stdout


def test_boards_that_are_not_here_are_not_offered(home: Path, harness: Run) -> None:
    """What could only fail: to measure what no board here can run, and to submit to it."""
    rows = [row(1), row(2), row(3, problem_name="elsewhere", mode=None)]
    harness("import", write(home / "data.parquet", [each | {"problem_name": "gone"} for each in rows[:2]] + rows[2:]))
    diff = harness("diff", 1, 2).stdout
    assert "BLOCK" in diff
    assert "--measure" not in diff
    across = harness("diff", 1, 3).stdout
    assert "the boards differ: 1 is for gone, 3 is for elsewhere" in across
    assert "--measure" not in across
    ranking = harness("leaderboard", "gone").stdout
    assert "The board is not here" in ranking
    assert "harness submit" not in ranking


def test_files_as_other_tools_write_them(home: Path, harness: Run) -> None:
    """32-bit numbers, short strings, floats with NaN for missing ids, naive nanosecond times, columns left out."""
    schema = pa.schema(
        [
            ("code", pa.string()),
            ("submission_id", pa.int32()),
            ("problem_name", pa.dictionary(pa.int32(), pa.string())),
            ("user_id", pa.int64()),
            ("code_id", pa.float64()),
            ("submission_time", pa.timestamp("ns")),
            ("score", pa.float32()),
            ("mode", pa.string()),
            ("index", pa.int64()),
        ]
    )
    rows = [
        {
            "code": "pass",
            "submission_id": 1,
            "problem_name": "p",
            "user_id": 5,
            "code_id": float("nan"),
            "submission_time": datetime(2026, 1, 1, 1, 2, 3),
            "score": float("nan"),
            "mode": "test",
            "index": 0,
        }
    ]
    assert harness("import", write(home / "data.parquet", rows, schema)).exit_code == 0
    with open_reader() as reader:
        (only,) = reader.history("5")
    assert (only.created_at, only.score, only.file_name) == (
        datetime(2026, 1, 1, 1, 2, 3, tzinfo=UTC),
        None,
        "submission.py",
    )


def test_files_that_are_something_else(home: Path, harness: Run) -> None:
    (home / "text.parquet").write_text("not parquet")
    done = harness("import", home / "text.parquet")
    assert (done.exit_code, "can't be read as a parquet file" in done.stderr) == (2, True)
    pq.write_table(pa.table({"a": [1]}), home / "other.parquet")
    done = harness("import", home / "other.parquet")
    assert (done.exit_code, "no column submission_id, problem_name" in done.stderr) == (2, True)
    wrong = SCHEMA.set(0, pa.field("submission_id", pa.large_string()))
    pq.write_table(wrong.empty_table(), home / "wrong.parquet")
    done = harness("import", home / "wrong.parquet")
    assert "the column submission_id holds large_string (allowed: whole numbers)" in done.stderr
    assert harness("import", home / "other.csv").exit_code == 2


def test_a_file_cut_short(home: Path, harness: Run) -> None:
    file = write(home / "data.parquet", ROWS)
    file.write_bytes(file.read_bytes()[:-20])
    assert harness("import", file).exit_code == 2


def test_a_file_damaged_inside_goes_in_up_to_there(home: Path, harness: Run) -> None:
    whole, damaged = home / "whole.parquet", home / "damaged.parquet"
    table = pa.Table.from_pylist([row(number) for number in range(1500)], SCHEMA)
    pq.write_table(table, whole, row_group_size=1000)
    content = bytearray(whole.read_bytes())
    begin = pq.ParquetFile(whole).metadata.row_group(1).column(0).data_page_offset
    content[begin : begin + 200] = bytes(200)
    damaged.write_bytes(content)
    done = harness("import", damaged)
    assert done.exit_code == 2
    assert f"{damaged}: the file is damaged after row 1000: " in done.stderr
    assert "up to there: added 1,000 submissions" in done.stderr
    assert "added 500 submissions" in harness("import", whole).stdout


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
NAMES = TEXT.filter(bool)
IDS = st.integers(0, 2**63 - 1)
PUBLISHED = st.fixed_dictionaries(
    {
        "submission_id": IDS,
        "leaderboard_id": st.none() | IDS,
        "problem_name": NAMES,
        "user_id": NAMES,
        "user_name": st.none() | TEXT,
        "code_id": st.none() | IDS,
        "file_name": st.none() | TEXT,
        "submission_time": st.integers(0, 4 * 10**15),
        "status": st.none() | st.sampled_from(STATUS_WORDS.split(", ")),
        "score": st.none() | st.floats(1e-12, 9e9),
        "passed": st.none() | st.booleans(),
        "mode": st.none() | st.sampled_from(["test", "benchmark", "leaderboard"]),
        "runner": st.none() | TEXT,
        "code": TEXT,
    }
)


@given(PUBLISHED)
def test_a_row_comes_back_as_it_was(published: dict[str, Any]) -> None:
    """By way of the tables' columns, without a database."""
    values = tuple(published[name] for name in COLUMNS)
    new = submission_of(values)
    submission = {
        "published": new.published,
        "leaderboard": new.leaderboard,
        "created_at": new.created_at,
        "text": new.source_text,
    }
    assert rows_of(submission, [each.shared | {"published": each.published} for each in new.evaluations]) == [values]


@given(st.lists(st.one_of(st.none(), st.integers(), st.floats(), TEXT, st.booleans()), min_size=14, max_size=14))
def test_no_row_brings_the_import_down(values: list[Any]) -> None:
    with suppress(RowError):
        submission_of(values)


def test_without_pyarrow_one_clear_error(tmp_path: Path) -> None:
    file = write(tmp_path / "data.parquet", ROWS)
    code = (
        f"import sys; sys.modules['pyarrow'] = None\nfrom harness.cli.main import main\nmain(['import', {str(file)!r}])"
    )
    environment = {"HARNESS_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 3
    assert "-m pip install" in done.stderr
    assert "[data]'" in done.stderr
    assert "Traceback" not in done.stderr


HEADER = EvaluationHeader(
    Mode.LEADERBOARD, Protocol.SEALED, GridName.CPU, Device("cpu", "some CPU"), IsolationLevel.NAMESPACES, False, 1, {},
    "", 1,
)  # fmt: skip
MEASURED = CaseResult(CaseKind.BENCHMARK, 0, {"n": 4}, Status.PASSED, samples=Samples((2000,) * 7, (100,) * 7))
UNISOLATED = replace(HEADER, isolation=IsolationLevel.NONE)
NOT_ISOLATED = Reason(ReasonCode.NOT_ISOLATED, "no sandbox")


@pytest.mark.parametrize(
    ("header", "rank_reason", "allowed", "score"),
    [
        (HEADER, None, False, 1.9e-6),
        (replace(HEADER, interpreted=True), Reason(ReasonCode.INTERPRETED, "interpreted"), False, None),
        (UNISOLATED, NOT_ISOLATED, False, None),
        (UNISOLATED, NOT_ISOLATED, True, 1.9e-6),
        (replace(HEADER, protocol=Protocol.POPCORN), Reason(ReasonCode.UNSEALED_PROTOCOL, "unsealed"), False, None),
        (HEADER, Reason(ReasonCode.TOO_NOISY, "too noisy"), False, None),
        (replace(HEADER, mode=Mode.BENCHMARK), None, False, None),
    ],
)
def test_only_scores_that_rank_are_exported(
    home: Path,
    harness: Run,
    monkeypatch: pytest.MonkeyPatch,
    header: EvaluationHeader,
    rank_reason: Reason | None,
    allowed: bool,
    score: float | None,
) -> None:
    """Whoever reads the file sees no difference between scores."""
    if allowed:
        monkeypatch.setenv("HARNESS_RANK_UNISOLATED", "1")
    with Store.open() as store:
        submission = store.add_submission("b", "ada", "a.py", "pass")
        record(store, submission, header, [MEASURED], EvaluationOutcome(Status.PASSED, None, rank_reason))
    with open_reader() as reader:
        (kept,) = reader.evaluations(submission)
        assert kept.score is not None
    assert harness("export", home / "ours.parquet").exit_code == 0
    (exported,) = pq.read_table(home / "ours.parquet").to_pylist()
    assert (exported["passed"], exported["status"]) == (True, "succeeded")
    assert exported["score"] == (None if score is None else pytest.approx(score))

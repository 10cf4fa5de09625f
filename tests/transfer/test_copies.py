"""One's own submissions that come back as published rows: those the store has are known, whatever came first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result
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
    Samples,
    Status,
)
from harness.store import Store, open_reader
from harness.store.bulk import NewSubmission, open_bulk

Run = Callable[..., Result]
HEADER = EvaluationHeader(
    Mode.LEADERBOARD, Protocol.SEALED, GridName.CPU, Device("cpu", "some CPU"), IsolationLevel.NAMESPACES, False, 1, {},
    "", 1,
)  # fmt: skip
TEXTS = ("def custom_kernel(data): return data\n", "def custom_kernel(data): return data + 0\n")


@pytest.fixture
def exported(home: Path, harness: Run) -> Path:
    """Two submissions in the store, exported in both formats."""
    with Store.open() as store:
        for number, text in enumerate(TEXTS):
            submission = store.add_submission("b", "ada", f"{number}.py", text)
            samples = Samples((2000 + number,) * 7, (100,) * 7)
            case = CaseResult(CaseKind.BENCHMARK, 0, {"n": 4}, Status.PASSED, samples=samples)
            record(store, submission, HEADER, [case], EvaluationOutcome(Status.PASSED, None))
    for name in ("out.parquet", "out.jsonl"):
        assert harness("export", home / name).exit_code == 0
    return home


@pytest.fixture
def another(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the store is another, which is empty."""
    monkeypatch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{exported}/another.sqlite3")


def counts(done: Result) -> tuple[int, int, int]:
    """How many submissions and evaluations were added, and how many lines were known."""
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    return told["submissions_added"], told["evaluations_added"], told["known"]


def recorded() -> list[tuple[int, int | None, list[Protocol]]]:
    """Every submission with the one before it, and the protocols of its evaluations."""
    with open_reader() as reader:
        found = [reader.submission(number) for number in range(1, 9)]
        return [
            (each.id, each.previous, [one.header.protocol for one in reader.evaluations(each.id)])
            for each in found
            if each is not None
        ]


MEASURED = [(1, None, [Protocol.SEALED]), (2, 1, [Protocol.SEALED])]
HOSTED = [(1, None, [Protocol.HOSTED]), (2, 1, [Protocol.HOSTED])]


def test_into_the_store_itself(exported: Path, harness: Run) -> None:
    assert counts(harness("import", exported / "out.parquet", "--json")) == (0, 0, 2)
    assert recorded() == MEASURED
    assert json.loads(harness("show", "2", "--json").stdout)["submission"]["previous"] == 1
    assert harness("diff", "--json").exit_code == 0
    assert counts(harness("import", exported / "out.jsonl", "--json")) == (0, 0, 2)
    assert recorded() == MEASURED


@pytest.mark.usefixtures("another")
def test_rows_alone_into_another(exported: Path, harness: Run) -> None:
    assert counts(harness("import", exported / "out.parquet", "--json")) == (2, 2, 0)
    assert recorded() == HOSTED
    assert counts(harness("import", exported / "out.parquet", "--json")) == (0, 0, 2)


@pytest.mark.usefixtures("another")
def test_lines_first_leave_nothing_for_rows(exported: Path, harness: Run) -> None:
    assert counts(harness("import", exported / "out.jsonl", "--json")) == (2, 2, 0)
    assert counts(harness("import", exported / "out.parquet", "--json")) == (0, 0, 2)
    assert recorded() == MEASURED


@pytest.mark.usefixtures("another")
def test_lines_give_rows_what_was_measured(exported: Path, harness: Run) -> None:
    harness("import", exported / "out.parquet")
    assert counts(harness("import", exported / "out.jsonl", "--json")) == (0, 2, 0)
    both = [Protocol.HOSTED, Protocol.SEALED]
    assert recorded() == [(1, None, both), (2, 1, both)]
    for name in ("out.parquet", "out.jsonl"):
        assert counts(harness("import", exported / name, "--json")) == (0, 0, 2)
    with open_reader() as reader:
        assert [entry.submission_id for entry in reader.entries("b")] == [1, 2]


@pytest.mark.usefixtures("another")
def test_the_way_back(exported: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another store made of the rows is the same submissions still."""
    harness("import", exported / "out.parquet")
    for name in ("back.parquet", "back.jsonl"):
        harness("export", exported / name)
    rows = [pq.read_table(exported / name).to_pylist() for name in ("out.parquet", "back.parquet")]
    assert rows[0] == rows[1]
    monkeypatch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{exported}/third.sqlite3")
    harness("import", exported / "out.jsonl")
    for name in ("back.parquet", "back.jsonl"):
        assert counts(harness("import", exported / name, "--json")) == (0, 0, 2)
    assert recorded() == MEASURED


def test_what_only_looks_alike_goes_in(exported: Path, harness: Run) -> None:
    """Another text, user, board or moment; and a run on another device of a submission that is known."""
    table = pq.read_table(exported / "out.parquet")
    row: dict[str, Any] = table.to_pylist()[0]
    others = [
        row | {"submission_id": 11, "code": f"{row['code']}#"},
        row | {"submission_id": 12, "user_name": "bob"},
        row | {"submission_id": 13, "problem_name": "c"},
        row | {"submission_id": 14, "submission_time": row["submission_time"].replace(year=2020)},
        row | {"runner": "H100"},
    ]
    pq.write_table(table.from_pylist(others, schema=table.schema), exported / "others.parquet")
    assert counts(harness("import", exported / "others.parquet", "--json")) == (4, 5, 0)
    assert recorded()[0][2] == [Protocol.SEALED, Protocol.HOSTED]


def test_a_copy_that_is_there_already_is_no_predecessor(home: Path) -> None:
    """Of an import by a version that knew no copies."""
    moments = [f"2026-11-0{day}T00:00:00.000000Z" for day in (1, 2)]
    first, second = (NewSubmission(f"o/{n}", "b", "ada", "a.py", TEXTS[n], moments[n], "[]") for n in range(2))
    with open_bulk() as writer:
        writer.add([first, second, second._replace(origin="published/2/1")])
    with open_reader() as reader:
        previous = {number: reader.submission(number) for number in (1, 2, 3)}
        assert {number: each and each.previous for number, each in previous.items()} == {1: None, 2: 1, 3: 1}


def test_runs_of_one_submission_stay_apart(exported: Path, harness: Run) -> None:
    """Two modes of one: each is known by itself."""
    with Store.open() as store:
        for mode in (Mode.TEST, Mode.LEADERBOARD):
            record(store, 2, replace(HEADER, mode=mode), [], EvaluationOutcome(Status.FAILED, None))
    harness("export", exported / "more.parquet")
    assert counts(harness("import", exported / "more.parquet", "--json")) == (0, 0, 4)


def test_a_submission_without_a_run(home: Path, harness: Run) -> None:
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", TEXTS[0])
    harness("export", home / "one.parquet")
    assert counts(harness("import", home / "one.parquet", "--json")) == (0, 0, 1)
    assert recorded() == [(1, None, [])]

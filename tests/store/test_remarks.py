"""Notes, tags, techniques and deletion."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.boards.board import GridName
from harness.errors import RequestError
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    Device,
    EvaluationHeader,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Protocol,
    Status,
)
from harness.store import Store, open_reader
from harness.store.database import connect
from harness.store.location import location

HEADER = EvaluationHeader(
    Mode.TEST, Protocol.SEALED, GridName.CPU, Device("cpu", "one"), IsolationLevel.NONE, False, 1, {}, "", 1
)


def counts() -> dict[str, int]:
    db = connect(location())
    tables = ("sources", "submissions", "evaluations", "case_results", "notes", "tags", "techniques")
    found = {table: db.value(f"SELECT count(*) FROM {table}") for table in tables}
    db.close()
    return found


def evaluated(store: Store, source: str) -> int:
    submission = store.add_submission("b", "ada", "a.py", source)
    evaluation = store.begin_evaluation(submission, HEADER)
    store.add_case(evaluation, CaseResult(CaseKind.TEST, 0, {"n": 1}, Status.PASSED))
    store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    return submission


def test_notes_and_tags(home: Path) -> None:
    with Store.open() as store:
        submission = evaluated(store, "pass")
        first = store.add_note(submission, "spills at 128\x00")
        store.add_note(submission, "second")
        store.change_tags(submission, add=["wip", "tma", "wip"])
        store.change_tags(submission, add=["tma"], remove=["wip", "never"])
        assert store.remove_note(submission, first + 1)
        assert not store.remove_note(submission, first + 1)
    with open_reader() as reader:
        assert [(note.id, note.text) for note in reader.notes(submission)] == [(first, "spills at 128\\x00")]
        assert reader.tags(submission) == ["tma"]
        assert reader.tags(99) == reader.notes(99) == []
        assert reader.remarks([submission, 99]) == (
            {submission: reader.tags(submission)},
            {submission: reader.notes(submission)},
        )


def test_techniques_are_kept_by_source_and_version(home: Path) -> None:
    sha256 = hashlib.sha256(b"pass").hexdigest()
    with Store.open() as store:
        evaluated(store, "pass")
        store.keep_techniques(sha256, 1, "[1]")
        store.keep_techniques(sha256, 1, "[2]")
        store.keep_techniques(sha256, 2, "[3]")
    with open_reader() as reader:
        assert [reader.techniques(sha256, version) for version in (1, 2, 3)] == ["[1]", "[3]", None]


def test_deletion_leaves_nothing_of_it_and_all_of_the_others(home: Path) -> None:
    sha256 = hashlib.sha256(b"pass").hexdigest()
    with Store.open() as store:
        first, second = evaluated(store, "pass"), evaluated(store, "pass")
        store.keep_techniques(sha256, 1, "[]")
        for submission in (first, second):
            store.add_note(submission, "x")
            store.change_tags(submission, add=["t"])
        store.delete_submission(first)
        assert counts() == dict.fromkeys(counts(), 1)
        store.delete_submission(second)
        assert set(counts().values()) == {0}
        with pytest.raises(RequestError, match="no submission 1"):
            store.delete_submission(first)
        assert evaluated(store, "pass") == second + 1  # an id is never used twice


def test_what_is_being_evaluated_is_not_deleted(home: Path) -> None:
    with Store.open() as store:
        submission = store.add_submission("b", "ada", "a.py", "pass")
        evaluation = store.begin_evaluation(submission, HEADER)
        with pytest.raises(RequestError, match="being evaluated"):
            store.delete_submission(submission)
        store.finish_evaluation(evaluation, EvaluationOutcome(Status.INTERRUPTED, None))
        store.delete_submission(submission)


def test_a_store_of_the_first_schema_is_migrated_when_read(home: Path) -> None:
    from alembic import command
    from sqlalchemy import create_engine

    from harness.store.migrate import alembic_config

    home.mkdir(exist_ok=True)
    with create_engine(f"sqlite:///{home}/harness.sqlite3").begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    with open_reader() as reader:
        assert reader.notes(1) == []

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.boards.problem_set import is_problem_set, read_problem_set
from harness.errors import RequestError

SET = """
name: Adding
deadline: "2026-02-14"
description: "sums"
problems:
  - directory: add
    name: plus
    deadline: "2025-11-29 6:59"
    gpus: [B200, L4]
  - directory: sub/minus
    name: minus
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "adding.yaml"
    path.write_text(text)
    return path


def test_a_set_names_and_dates_its_boards(tmp_path: Path, make_board) -> None:
    folder = make_board("add", gpus=["H100"])
    path = write(folder.parent, SET)
    assert is_problem_set(path)
    assert not is_problem_set(folder / "task.yml")
    read = read_problem_set(path)
    assert (read.name, read.deadline) == ("Adding", datetime(2026, 2, 14, 23, 59, 59, tzinfo=UTC))
    plus, minus = read.problems
    assert plus.deadline == datetime(2025, 11, 29, 6, 59, tzinfo=UTC)
    assert minus.folder == folder.parent / "sub" / "minus"
    assert (minus.deadline, minus.gpus) == (read.deadline, None)
    board = plus.load()
    assert (board.name, board.gpus, board.deadline) == ("plus", ("B200", "L4"), plus.deadline)


@pytest.mark.parametrize(
    ("text", "deadline"),
    [
        ('""', None),
        ("", None),
        ('"2026-06-30"', datetime(2026, 6, 30, 23, 59, 59, tzinfo=UTC)),
        ("2026-06-30", datetime(2026, 6, 30, 23, 59, 59, tzinfo=UTC)),
        ('"2026-06-30 18:05"', datetime(2026, 6, 30, 18, 5, tzinfo=UTC)),
        ('"2025-10-15 00:00:00"', datetime(2025, 10, 15, tzinfo=UTC)),
        ("2025-10-15 00:00:00", datetime(2025, 10, 15, tzinfo=UTC)),
        ("2025-10-15T01:00:00+02:00", datetime(2025, 10, 14, 23, tzinfo=UTC)),
    ],
)
def test_deadlines(tmp_path: Path, text: str, deadline: datetime | None) -> None:
    assert read_problem_set(write(tmp_path, f"deadline: {text}\nproblems: []\n")).deadline == deadline


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('deadline: "soon"\n', ": deadline", "'soon' is no deadline (unknown form)"),
        ('deadline: "2026-02-30"\n', ": deadline", "'2026-02-30' is no deadline"),
        ('deadline: "2026-02-03 24:00"\n', ": deadline", "hour must be in 0..23"),
        ("deadline: 5\n", ": deadline", "a number (5) where text is needed"),
        ("problems: 5\n", ": problems", "a number (5) where a list is needed"),
        ("problems: [{name: x}]\n", ": problems[0].directory", "the key is missing"),
        ("problems: [{directory: x}]\n", ": problems[0].name", "the key is missing"),
        ("problems: [{directory: x, name: a b}]\n", ": problems[0].name", "can't name a board"),
        ("problems: [{directory: x, name: a}, {directory: y, name: A}]\n", ": problems[1].name", "given twice"),
        ("problems: [{directory: x, name: a, gpus: B200}]\n", ": problems[0].gpus", "a list is needed"),
        ("problems: []\nproblems: []\n", ":2", "the key 'problems' is given twice"),
    ],
)
def test_a_malformed_set_names_file_and_key(tmp_path: Path, text: str, where: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(RequestError) as caught:
        read_problem_set(path)
    assert caught.value.where == f"{path}{where}"
    assert message in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(st.text("0123456789-: T+Z", max_size=24) | st.datetimes().map(str))
def test_any_deadline_is_read_or_refused(tmp_path_factory, text: str) -> None:
    for written in (text, f'"{text}"'):
        path = tmp_path_factory.getbasetemp() / "deadline.yaml"
        path.write_text(f"problems: []\ndeadline: {written}\n")
        try:
            deadline = read_problem_set(path).deadline
        except RequestError:
            continue
        assert deadline is None or deadline.tzinfo is UTC

"""JSON lines: what goes out comes back, into a store of either kind."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
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
    StopRule,
)
from harness.store import Store, open_reader, standings
from harness.store.database import connect
from harness.store.location import location
from harness.transfer.errors import RowError
from harness.transfer.lines import record_of

Run = Callable[..., Result]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.lists(st.integers(1, 10**9), max_size=8).map(tuple)
CASES = st.builds(
    CaseResult,
    kind=st.sampled_from(CaseKind),
    index=st.integers(0, 9),
    spec=st.dictionaries(TEXT, st.integers() | NUMBERS | TEXT | st.booleans() | st.tuples(st.integers()), max_size=3),
    status=st.sampled_from(Status),
    reason=st.none() | st.builds(Reason, st.sampled_from(ReasonCode), TEXT),
    traceback=TEXT,
    samples=st.none() | st.builds(Samples, COUNTS, COUNTS, COUNTS),
    stop_rule=st.none() | st.sampled_from(StopRule),
    flops=st.none() | NUMBERS,
    bytes_moved=st.none() | NUMBERS,
    speed_of_light_ns=st.none() | NUMBERS,
    floor_ns=st.none() | NUMBERS,
    notes=st.lists(TEXT, max_size=2).map(tuple),
    seconds=NUMBERS,
)
HEADERS = st.builds(
    EvaluationHeader,
    mode=st.sampled_from(Mode),
    protocol=st.sampled_from([Protocol.SEALED, Protocol.POPCORN]),
    grid=st.sampled_from(GridName),
    device=st.builds(Device, st.sampled_from(["cpu", "cuda"]), TEXT, st.dictionaries(TEXT, TEXT | NUMBERS, max_size=2)),
    isolation=st.sampled_from(IsolationLevel),
    interpreted=st.booleans(),
    seed=st.integers(0, 2**127),
    versions=st.dictionaries(TEXT, TEXT, max_size=2),
    log=TEXT,
    cases_planned=st.integers(0, 100),
)
OUTCOMES = st.builds(
    EvaluationOutcome,
    status=st.sampled_from([status for status in Status if status is not Status.RUNNING]),
    reason=st.none() | st.builds(Reason, st.sampled_from(ReasonCode), TEXT),
    rank_reason=st.none() | st.builds(Reason, st.sampled_from(ReasonCode), TEXT),
    phases_s=st.dictionaries(TEXT, NUMBERS, max_size=2),
)
EVALUATIONS = st.tuples(HEADERS, st.lists(CASES, max_size=3, unique_by=lambda case: (case.kind, case.index)), OUTCOMES)
SUBMISSIONS = st.tuples(
    st.sampled_from(["b", "c"]),
    TEXT.filter(bool),
    TEXT,
    TEXT,
    st.lists(TEXT.filter(bool), max_size=2),
    st.lists(EVALUATIONS, max_size=2),
    st.lists(TEXT, max_size=1),
    st.lists(TEXT.filter(bool), max_size=2, unique=True),
)


def fill(url: str | None, submissions: list[Any]) -> None:
    with Store.open(url) as store:
        for board, user, file_name, source, gpus, evaluations, notes, tags in submissions:
            submission = store.add_submission(board, user, file_name, source, gpus)
            for header, cases, outcome in evaluations:
                record(store, submission, header, cases, outcome)
            for note in notes:
                store.add_note(submission, note)
            store.change_tags(submission, add=tags)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(submissions=st.lists(SUBMISSIONS, max_size=3))
def test_round_trip(
    home: Path,
    harness: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    submissions: Any,
) -> None:
    """From a SQLite file into a store of either kind and out again: the same lines; and every value as it was."""
    folder = tmp_path_factory.mktemp("trip")
    first = f"sqlite:///{folder}/first.sqlite3"
    fill(first, submissions)
    with monkeypatch.context() as patch:
        patch.setenv("HARNESS_DATABASE_URL", first)
        assert harness("export", folder / "a.jsonl").exit_code == 0
        with open_reader() as reader:
            before = {row.id: reader.evaluations(row.id) for _, user, *_ in submissions for row in reader.history(user)}
    empty_again()
    done = harness("import", folder / "a.jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    assert harness("export", folder / "b.jsonl").exit_code == 0
    wanted, got = ((folder / name).read_text().splitlines() for name in ("a.jsonl", "b.jsonl"))
    assert got[1:] == wanted[1:]
    with open_reader() as reader:
        after = [
            (each.header, each.outcome, each.cases, each.score, each.started_at, each.finished_at)
            for _, user, *_ in submissions
            for row in reader.history(user)
            for each in reader.evaluations(row.id)
        ]
    again = json.loads(harness("import", folder / "a.jsonl", "--json").stdout)
    assert (again["submissions_added"], again["evaluations_added"]) == (0, 0)
    values = {
        repr((each.header, each.outcome, each.cases, each.score, each.started_at, each.finished_at))
        for evaluations in before.values()
        for each in evaluations
    }
    assert {repr(each) for each in after} == values
    db = connect(location())
    with db.transaction():
        assert standings.differences(db) == []
    db.close()


def empty_again() -> None:
    Store.open().close()
    db = connect(location())
    for table in ("case_results", "evaluations", "notes", "tags", "submissions", "compilations", "sources"):
        db.run(f"DELETE FROM {table}")
    for table in ("rank_classes", "scored_runs", "user_standings"):
        db.run(f"DELETE FROM {table}")
    db.close()


HEADER = EvaluationHeader(
    Mode.LEADERBOARD, Protocol.SEALED, GridName.CPU, Device("cpu", "x"), IsolationLevel.BUBBLEWRAP, False, 1, {}, "", 1
)
CASE = CaseResult(CaseKind.BENCHMARK, 0, {"n": 4}, Status.PASSED, samples=Samples((1500, 1000, 2000)))
PASSED = EvaluationOutcome(Status.PASSED, None)


def exported(home: Path, harness: Run) -> list[dict[str, Any]]:
    """Two submissions of ada's in the store; their lines, the first line first."""
    fill(None, [("b", "ada", "a.py", f"# {n}", [], [(HEADER, [CASE], PASSED)], ["fast"], ["tma"]) for n in range(2)])
    assert harness("export", home / "all.jsonl.gz").exit_code == 0
    with gzip.open(home / "all.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def test_its_own_file_adds_nothing(home: Path, harness: Run) -> None:
    exported(home, harness)
    done = json.loads(harness("import", home / "all.jsonl.gz", "--json").stdout)
    assert (done["submissions_added"], done["evaluations_added"], done["known"]) == (0, 0, 2)


def test_what_was_deleted_comes_back(home: Path, harness: Run) -> None:
    exported(home, harness)
    with Store.open() as store:
        store.delete_submission(1)
    assert "added 1 submission and 1 evaluation in" in harness("import", home / "all.jsonl.gz").stdout
    assert "added 0 submissions" in harness("import", home / "all.jsonl.gz").stdout
    with open_reader() as reader:
        # By time it is the older one still, under a new id.
        assert [row.id for row in reader.history("ada")] == [3, 2]
        (evaluation,) = reader.evaluations(3)
        assert str(evaluation.rank) == "1"
        assert [note.text for note in reader.notes(3)] == ["fast"]
        assert reader.tags(3) == ["tma"]


def test_a_score_is_derived_not_believed(home: Path, harness: Run) -> None:
    first, line, _ = exported(home, harness)
    assert line["evaluations"][0]["score_ns"] == 1500.0
    line["evaluations"][0]["score_ns"] = 1.0
    line["origin"], line["evaluations"][0]["origin"] = "other/1", "other/1"
    write(home / "forged.jsonl", first, line)
    harness("import", home / "forged.jsonl")
    with open_reader() as reader:
        (row,) = (row for row in reader.history("ada") if row.id == 3)
    assert row.score is not None
    assert row.score.value_ns == 1500.0


def test_what_was_running_is_interrupted(home: Path, harness: Run) -> None:
    first, line, _ = exported(home, harness)
    line["evaluations"][0] |= {"status": "running", "origin": "other/1"}
    line["origin"] = "other/1"
    write(home / "running.jsonl", first, line)
    harness("import", home / "running.jsonl")
    with open_reader() as reader:
        (evaluation,) = reader.evaluations(3)
    assert evaluation.outcome.status is Status.INTERRUPTED


def test_bad_lines_are_told_and_the_rest_goes_in(home: Path, harness: Run) -> None:
    first, one, two = exported(home, harness)
    for number, line in enumerate((one, two)):
        line["origin"] = line["evaluations"][0]["origin"] = f"other/{number}"
    bad = [
        '{"origin": "other/3"',
        "[]",
        json.dumps({**one, "origin": None}),
        json.dumps({**one, "user_name": "a\x00"}),
        json.dumps({**one, "created_at": "yesterday"}),
        json.dumps({**one, "evaluations": [{**one["evaluations"][0], "mode": "fastest"}]}),
        json.dumps({**one, "evaluations": [{**one["evaluations"][0], "cases_planned": "three"}]}),
        json.dumps(
            {**one, "evaluations": [{**one["evaluations"][0], "cases": [one["evaluations"][0]["cases"][0]] * 2}]}
        ),
        json.dumps({**one, "source": "\ud800"}),
    ]
    lines = [json.dumps(first), json.dumps(one), *bad, "", json.dumps(two)]
    (home / "bad.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"origin": "\xff"}\n')
    done = harness("import", home / "bad.jsonl")
    assert done.exit_code == 2
    assert "added 2 submissions and 2 evaluations" in done.stdout
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()] == [
        "line 3: it is not JSON: Expecting ',' delimiter at character 21",
        "line 4: the line is not an object",
        "line 5: 'origin' of the line is null, not text",
        "line 6: 'user_name' of the line holds a NUL character",
        "line 7: 'created_at' of the line is no time: 'yesterday'",
        "line 8: 'mode' of an evaluation is 'fastest' (allowed: test, benchmark, leaderboard)",
        "line 9: 'cases_planned' of an evaluation is text, not a number",
        "line 10: an evaluation has two cases of one kind and index",
        "line 11: source holds half a character (a lone surrogate) at 0",
        "line 14: origin holds half a character (a lone surrogate) at 0",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(data=st.data())
def test_no_line_brings_the_import_down(data: st.DataObject) -> None:
    """A good line with any one of its values replaced is taken or refused, with a word on what is wrong."""
    line = json.loads(GOOD)
    part: Any = data.draw(
        st.sampled_from([line, line["evaluations"][0], line["evaluations"][0]["cases"][0], line["notes"][0]])
    )
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(JSON)
    with suppress(RowError):
        record_of(json.dumps(line))


GOOD = json.dumps(
    {
        "origin": "s/1",
        "leaderboard": "b",
        "user_name": "ada",
        "file_name": "a.py",
        "created_at": "2026-11-01T00:00:00.000000Z",
        "gpus": [],
        "published": None,
        "source": "pass",
        "notes": [{"created_at": "2026-11-01T00:00:00.000000Z", "text": "x"}],
        "tags": ["t"],
        "evaluations": [
            {
                "origin": "s/1",
                "mode": "leaderboard",
                "protocol": "sealed-1",
                "grid": "cpu",
                "ranking_by": "geom",
                "device_kind": "cpu",
                "device_name": "x",
                "device_details": {},
                "isolation": "uid",
                "interpreted": False,
                "seed": "12",
                "versions": {},
                "log": "",
                "cases_planned": 1,
                "status": "passed",
                "reason_code": None,
                "reason_message": None,
                "rank_reason_code": None,
                "rank_reason_message": None,
                "phases_s": {},
                "state": {},
                "started_at": "2026-11-01T00:00:00.000000Z",
                "finished_at": None,
                "rank_then": 1,
                "score_ns": 5.0,
                "published": None,
                "cases": [
                    {
                        "kind": "benchmark",
                        "idx": 0,
                        "spec": {"n": 1},
                        "status": "passed",
                        "reason_code": None,
                        "reason_message": None,
                        "traceback": "",
                        "wall_ns": [5, 5],
                        "overhead_ns": [1, 1],
                        "events_ns": [],
                        "stop_rule": "budget",
                        "flops": 1.0,
                        "bytes_moved": None,
                        "speed_of_light_ns": None,
                        "floor_ns": None,
                        "notes": [],
                        "seconds": 0.1,
                    }
                ],
            }
        ],
    }
)


def test_files_of_something_else(home: Path, harness: Run) -> None:
    for name, content in {
        "a.jsonl": "{}\n",
        "b.jsonl": "",
        "c.jsonl": json.dumps({"kind": "harness-submissions", "format": 4}),
    }.items():
        (home / name).write_text(content)
    (home / "d.jsonl.gz").write_text("not compressed")
    assert "first line does not say so" in harness("import", home / "a.jsonl").stderr
    assert "format 4; this harness reads formats 1 to 3" in harness("import", home / "c.jsonl").stderr
    assert [harness("import", home / name).exit_code for name in ("a.jsonl", "c.jsonl", "d.jsonl.gz")] == [2] * 3
    assert "first line" in harness("import", home / "b.jsonl").stderr


def test_export_of_an_empty_store_and_of_one_user(home: Path, harness: Run) -> None:
    assert harness("export", home / "none.jsonl").exit_code == 0
    assert len((home / "none.jsonl").read_text().splitlines()) == 1
    fill(None, [("b", user, "a.py", "pass", [], [], [], []) for user in ("ada", "bob", "ada")])
    assert "wrote 2 submissions" in harness("export", home / "ada.jsonl", "--user", "ada").stdout
    lines = harness("export", "-", "--leaderboard", "b").stdout.splitlines()
    assert [json.loads(line)["user_name"] for line in lines[1:]] == ["ada", "bob", "ada"]


def write(path: Path, *documents: object) -> None:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


@pytest.mark.parametrize("name", ["seconds", "flops", "bytes_moved", "speed_of_light_ns", "floor_ns"])
@pytest.mark.parametrize("number", ["1" + "0" * 400, "Infinity", "NaN", "-Infinity"])
def test_a_number_that_no_table_holds_is_that_lines_fault(name: str, number: str) -> None:
    line = json.loads(GOOD)
    line["evaluations"][0]["cases"][0][name] = "HERE"
    with pytest.raises(RowError, match=rf"^evaluations\[0\].cases\[0\].{name} is no finite number of 64 bits"):
        record_of(json.dumps(line).replace('"HERE"', number))


def test_a_number_of_more_than_64_bits_is_a_float_there(home: Path, harness: Run) -> None:
    first, line, _ = exported(home, harness)
    line["origin"] = line["evaluations"][0]["origin"] = "other/1"
    line["evaluations"][0]["cases"][0]["seconds"] = 10**21
    write(home / "large.jsonl", first, line)
    assert "added 1 submission and" in harness("import", home / "large.jsonl").stdout


def test_a_first_line_nested_without_end_names_no_format(home: Path, harness: Run) -> None:
    (home / "deep.jsonl").write_text("[" * 100_000)
    done = harness("import", home / "deep.jsonl")
    assert done.exit_code == 2
    assert "its first line does not say so" in done.stderr


def test_what_json_lacks_goes_out_as_text(home: Path, harness: Run) -> None:
    """A board's case may hold infinity, a remark half a character; other programs read the lines, too."""
    case = replace(
        CASE, spec={"x": float("inf"), "y": (float("nan"),)}, notes=("wrong: \udc80 😀",), flops=float("inf")
    )
    fill(None, [("b", "ada", "a.py", "pass", [], [(HEADER, [case], PASSED)], [], [])])
    assert harness("export", home / "all.jsonl").exit_code == 0
    first, text = (home / "all.jsonl").read_text(encoding="utf-8").splitlines()
    line = json.loads(text, parse_constant=pytest.fail)
    (written,) = line["evaluations"][0]["cases"]
    assert (written["spec"], written["notes"], written["flops"]) == (
        {"x": "inf", "y": ["nan"]},
        ["wrong: \\udc80 😀"],
        None,
    )
    line["origin"] = "other/1"
    write(home / "again.jsonl", json.loads(first), line)
    assert harness("import", home / "again.jsonl").exit_code == 0


@pytest.mark.parametrize(
    ("name", "of_case", "told"),
    [
        (
            "status",
            False,
            "is 'x' (allowed: running, passed, failed, rejected, error, timeout, interrupted)",
        ),
        ("protocol", False, "'protocol' of an evaluation is 'x' (allowed: sealed-1, popcorn, hosted)"),
        ("rank_reason_code", False, "'rank_reason_code' of an evaluation is 'x' (allowed: wrong_answer, contract, "),
        ("kind", True, "'kind' of a case is 'x' (allowed: test, benchmark)"),
        ("stop_rule", True, "'stop_rule' of a case is 'x' (allowed: "),
    ],
)
def test_a_word_that_there_is_not_is_told_with_those_that_there_are(name: str, of_case: bool, told: str) -> None:
    line = json.loads(GOOD)
    (evaluation,) = line["evaluations"]
    (evaluation["cases"][0] if of_case else evaluation)[name] = "x"
    with pytest.raises(RowError, match=re.escape(told)):
        record_of(json.dumps(line))

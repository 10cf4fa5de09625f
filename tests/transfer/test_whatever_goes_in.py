"""A line with anything in the place of any of its values is refused, or goes in; then everything can be shown and
exported, every document is strict JSON, and what is exported goes in elsewhere."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from recording import record

from harness.boards.board import GridName
from harness.calibrating.record import DeviceCalibration
from harness.cli.main import cli
from harness.compiling.jsonable import to_dict
from harness.compiling.occupancy import Limiter, Occupancy
from harness.compiling.record import Compilation, CompiledCase, Dsl, Kernel, Resources, SourceLine
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
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.store import Store, codec, open_reader
from harness.store.bulk import open_bulk
from harness.transfer import published

Run = Callable[..., Result]
EXAMPLES = int(os.environ.get("HARNESS_TEST_EXAMPLES", "40"))
BOARD, USER, OTHER = "some-board", "ada", "bob"
CPU = Device("cpu", "some CPU", {"cores": 2, "model": "x", "ghz": 2.5})
HEADER = EvaluationHeader(
    Mode.LEADERBOARD,
    Protocol.SEALED,
    GridName.CPU,
    CPU,
    IsolationLevel.BUBBLEWRAP,
    False,
    1,
    {"torch": "2.13"},
    "/l",
    2,
)
CASES = [
    CaseResult(CaseKind.TEST, 0, {"n": 4, "shape": (1, (2, 3)), "seed": 7}, Status.PASSED, seconds=0.5),
    CaseResult(
        CaseKind.BENCHMARK, 0, {"n": 4, "cond": 2.5, "flag": True}, Status.PASSED,
        samples=Samples((1500, 1000, 2000, 1200, 1300, 1400, 1450), (100,) * 7, (1400,) * 7, 3),
        stop_rule=StopRule.PRECISE, flops=1e9, bytes_moved=1e6, speed_of_light_ns=700.0, floor_ns=10.0,
        notes=("residual 0.5",), seconds=1.0,
    ),
]  # fmt: skip
READING = {"load_1min": 0.5, "cores": 2, "throttling": [], "other_process_count": 1, "other_processes": [4],
           "sm_clock_mhz": 1000, "throttled_power_ns": 0, "governor": "x"}  # fmt: skip
OUTCOME = EvaluationOutcome(
    Status.PASSED, None, None, {"tests": 1.5, "benchmarks": 2.0}, {"before": READING, "after": READING}
)
FAILED = EvaluationOutcome(Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, "no"), None)


def compilation(sha256: str) -> Compilation:
    kernel = Kernel(
        "tile", Dsl.NVRTC, "BLOCK=64", SourceLine("k.py", 3), Resources(32, 0, 0, 0, 4096, 0, 0, 128),
        Occupancy(2, 8, 0.5, (Limiter.WARPS,), 2), {"ffma": 7}, 512, 0.1, "ab" * 32, (0,), 1,
    )  # fmt: skip
    case = CompiledCase(0, {"n": 32, "shape": (1, 2)}, (), {"aten::mm": 2}, 0.5)
    return Compilation("k.py", sha256, BOARD, "sm_90a", (kernel,), (case,), (), {"nvrtc": "12.9"}, 1.25)


def fill(user: str, source: str) -> None:
    """One measured submission with all that may belong to it, one that failed, one published, and calibrations."""
    with Store.open() as store:
        for outcome, text in ((OUTCOME, source), (FAILED, source + "#")):
            submission = store.add_submission(BOARD, user, "k.py", text, ["H200"])
            record(store, submission, HEADER, CASES, outcome)
            sha256 = hashlib.sha256(text.encode()).hexdigest()
            store.keep_compilation(sha256, BOARD, "sm_90a", json.dumps(to_dict(compilation(sha256))))
            store.add_note(submission, "fast")
            store.change_tags(submission, add=["tma"])
    row = [7, 1, BOARD, user, user, 3, "k.py", 1_700_000_000_000_000, "succeeded", 2e-5, True, "leaderboard", "B200",
           source + "##"]  # fmt: skip
    day = codec.time_of("2026-11-01T00:00:00Z")
    assert day is not None
    noise = NoiseCalibration(
        NoiseKey("some CPU", BOARD, GridName.CPU, Protocol.SEALED), "cpu", (1e3, 1001.0, 999.0), day
    )
    with open_bulk() as writer:
        writer.add([published.submission_of(row), published.submission_of([8, *row[1:8], *[None] * 5, row[13]])])
        writer.add_calibrations(
            [DeviceCalibration(CPU, {"noop_ns": 5.0}, day, {"torch": "2"}, {"before": READING}), noise]
        )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, and the lines of another one by another user."""
    folder = tmp_path_factory.mktemp("base")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_RANK_UNISOLATED", "1")
        Store.open(f"sqlite:///{folder}/empty.sqlite3").close()
        for name, user in (("other", OTHER), ("store", USER)):
            patch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{folder}/{name}.sqlite3")
            fill(user, f"pass  # {user}\n")
            runner = CliRunner()
            assert runner.invoke(cli, ["export", str(folder / f"{name}.jsonl")], standalone_mode=False).exit_code == 0
    return folder


SPECIAL: list[Any] = [
    math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0, 2**31, 2**63, -(2**63), 10**400, 10**20, 0, -1, True,
    False, None, "", "\x00", "\ud800", "x\ud800", "é\u202e", "1" * 5000, "é" * 3000, "\x1b[31m", "[bold]", "-x", "a\nb",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-01T00:00:00+00:00", "2026-W01-1",
    "hosted", "sealed-1", "popcorn", "running", "passed", "failed", "test", "benchmark", "leaderboard", "last", "mean",
    "none", "imported", "not_isolated", "cuda", "full", "gpu", "cholesky", "../x", USER, OTHER, BOARD,
    "submission", "1",
    [], {}, [[]], [math.nan], [1, math.inf], [10**400], {"x": math.nan}, {"x": {"y": "\ud800"}}, {"\ud800": 1},
    {"before": {"load_1min": 9}}, {"before": {"load_1min": 9, "cores": "x"}}, {"after": {"throttling": 5}},
    {"before": {"other_process_count": "x"}}, {"before": []}, [1e308] * 7, [5e-324] * 7, [2**63] * 7,
    [0] * 7, [1.5] * 6,
    [10**400] * 3, ["x"], [None], [{}], [[[]]], {"x": None}, {"x": 10**400}, {"x": []}, {"submission_id": 2**70},
    {"submission_id": 1, "score": "x"},
]  # fmt: skip
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
TEXT = st.text(max_size=12)
JSON = st.sampled_from([*SPECIAL, DEEP]) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def alike(value: Any) -> st.SearchStrategy[Any]:
    """Values of the same kind, which are more likely to go in."""
    kind = (int, float) if isinstance(value, int | float) else type(value)
    return st.sampled_from([each for each in SPECIAL if isinstance(each, kind)]) | (
        st.integers() | st.floats() if kind == (int, float) else TEXT if kind is str else JSON
    )


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a document, those inside of others too."""
    names = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for name in names:
        yield (*path, name)
        yield from places(document[name], (*path, name))


def mutated(draw: Callable[[st.SearchStrategy[Any]], Any], line: dict[str, Any]) -> dict[str, Any]:
    """A line with one to three of its values replaced, taken out or added to."""
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        *way, last = draw(st.sampled_from(sorted(places(line), key=repr)))
        part: Any = line
        for name in way:
            part = part[name]
        what = draw(st.sampled_from(["replace"] * 8 + ["remove", "add", "twice"]))
        if what == "remove":
            del part[last]
        elif what == "twice" and isinstance(part, list):
            part.append(deepcopy(part[last]))
        elif what == "add" and isinstance(part, dict):
            part[draw(TEXT)] = deepcopy(draw(JSON))
        else:
            part[last] = deepcopy(draw(alike(part[last]) if draw(st.integers(0, 3)) else JSON))
    return line


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text.encode()
    return json.loads(text, parse_constant=refuse)


@settings(
    max_examples=EXAMPLES, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(data=st.data())
def test_whatever_goes_in_can_be_shown_and_exported(
    base: Path, tmp_path: Path, harness: Run, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    first, *lines = (base / "other.jsonl").read_text().splitlines()
    line = mutated(data.draw, json.loads(data.draw(st.sampled_from(lines))))
    (tmp_path / "in.jsonl").write_text(f"{first}\n{json.dumps(line)}\n")
    shutil.copy(base / "store.sqlite3", tmp_path / "store.sqlite3")
    monkeypatch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{tmp_path}/store.sqlite3")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.setenv("HARNESS_RANK_UNISOLATED", "1")

    def run(*arguments: object, as_json: bool = False) -> str:
        done = harness(*arguments, *(["--json"] if as_json else []))
        assert done.exit_code == 0, (arguments, done.stderr)
        if as_json:
            strict(done.stdout)
        return done.stdout

    came = harness("import", tmp_path / "in.jsonl", "--json")
    document = strict(came.stdout)
    assert came.exit_code == (2 if document["bad"] else 0)
    event("refused" if document["bad"] else "went in")
    if document["bad"]:
        return
    if document["submissions_added"]:
        with open_reader() as reader:
            new = reader.last_submission_id()
            assert new is not None
            row = reader.submission(new)
            assert row is not None
        run("show", new)
        run("show", new, as_json=True)
        for old in range(1, 4):
            run("diff", old, new)
            run("diff", old, new, as_json=True)
            run("diff", new, old, as_json=True)
        for of_user in ([f"--user={row.user}"], [f"--user={row.user}", "--limit", "0"]):
            run("history", *of_user)
            run("history", *of_user, as_json=True)
            run("history", *of_user, "--", row.leaderboard)
        for options in ([], ["--all"], ["--imported"], ["--since", "2026-11-15"]):
            run("leaderboard", *options, "--", row.leaderboard)
            run("leaderboard", "--json", *options, "--", row.leaderboard)
    run("leaderboard", BOARD, as_json=True)
    run("export", tmp_path / "out.jsonl")
    for text in (tmp_path / "out.jsonl").read_text().rstrip("\n").split("\n"):
        strict(text)
    run("export", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows >= 4
    monkeypatch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{tmp_path}/again.sqlite3")
    shutil.copy(base / "empty.sqlite3", tmp_path / "again.sqlite3")
    run("import", tmp_path / "out.jsonl")
    run("import", tmp_path / "out.parquet")

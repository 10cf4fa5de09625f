"""JSON lines: what compile mode said of a source, and what was calibrated, out of one store and into another."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import GridName
from harness.calibrating.record import DeviceCalibration
from harness.compiling.jsonable import to_dict
from harness.compiling.kept import keep, kept_compilations
from harness.compiling.record import Compilation, CompiledCase, Dsl, Kernel, Problem, ProblemKind, Resources, SourceLine
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
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.store import Store, open_reader
from harness.store.calibrations import Calibration, table_and_columns
from harness.store.codec import time_text
from harness.store.database import connect
from harness.store.location import location
from harness.transfer import calibration_lines
from harness.transfer.errors import RowError
from harness.transfer.lines import record_of

Run = Callable[..., Result]
DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)
KEY = NoiseKey("some CPU", "b", GridName.CPU, Protocol.SEALED)
QUIET = NoiseCalibration(KEY, "cpu", (1000.0, 1001.0, 999.0, 1000.5, 999.5), DAY)
LOUD = replace(QUIET, scores_ns=(1000.0, 1100.0, 900.0))
ELSEWHERE = replace(QUIET, key=replace(KEY, leaderboard="c"))
RATES = DeviceCalibration(
    Device("cpu", "some CPU", {"cores": 2, "name": "µ"}),
    {"copy_bytes_per_s": 1.5e10, "noop_ns": 2000.25},
    DAY,
    {"torch": "2.13.0"},
    {"before": {"load": 0.5, "throttled": []}},
)
HEADER = EvaluationHeader(
    Mode.LEADERBOARD, Protocol.SEALED, GridName.CPU, Device("cpu", "some CPU"),
    IsolationLevel.NAMESPACES, False, 1, {}, "", 1,
)  # fmt: skip
SOURCES = {"ada": "pass  # ada\n", "bob": "pass  # bob\n"}


def compilation(sha256: str, architecture: str, registers: int, leaderboard: str | None = "b") -> Compilation:
    kernel = Kernel(
        name="tile",
        dsl=Dsl.NVRTC,
        specialisation="BLOCK=64",
        source=SourceLine("k.py", 3),
        resources=Resources(registers, 0, 0, 0, 4096, 0, 0, 128),
        occupancy=None,
        instructions={"ffma": 7},
        code_bytes=512,
        compile_s=0.1,
        sha256="ab" * 32,
        cases=(0,),
        launches=1,
    )
    problem = Problem(ProblemKind.GUESS, "item() of a tensor was taken for 1 \x00 µ", survived=True)
    case = CompiledCase(0, {"n": 32, "shape": (1, 2)}, (problem,), {"aten::mm": 2}, 0.5)
    return Compilation("k.py", sha256, leaderboard, architecture, (kernel,), (case,), (), {"nvrtc": "12.9"}, 1.25)


def evaluated(store: Store, user: str, time_ns: int) -> int:
    submission = store.add_submission("b", user, "k.py", SOURCES[user])
    evaluation = store.begin_evaluation(submission, HEADER)
    case = CaseResult(CaseKind.BENCHMARK, 0, {"n": 32}, Status.PASSED, samples=Samples((time_ns,) * 15))
    store.add_case(evaluation, case)
    store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    return submission


def sha_of(submission_id: int) -> str:
    with open_reader() as reader:
        submission = reader.submission(submission_id)
    assert submission is not None
    return submission.sha256


@pytest.fixture
def lines(home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A SQLite store, exported to `all.jsonl.gz`: ada's submission at 1000 ns and bob's at 1020, both compiled, and
    calibrations. The lines, the first line first. The store under test is empty."""
    with monkeypatch.context() as patch:
        patch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{home}/first.sqlite3")
        with Store.open() as store:
            ada, bob = evaluated(store, "ada", 1000), evaluated(store, "bob", 1020)
            for each in (LOUD, QUIET, ELSEWHERE, RATES):
                store.keep_calibration(each)
        for number, registers in ((ada, 168), (bob, 96)):
            sha256 = sha_of(number)
            every = [compilation(sha256, architecture, registers) for architecture in ("sm_90a", "sm_100a")]
            assert keep([*every, compilation(sha256, "sm_90a", 40, leaderboard=None)])
        assert harness("export", home / "all.jsonl.gz").stdout.startswith("wrote 2 submissions and 4 calibrations")
        assert ranks(harness) == {"ada": "1", "bob": "2"}
    return read(home / "all.jsonl.gz")


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def write(path: Path, *documents: object) -> Path:
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents) + "\n")
    return path


def ranks(harness: Run) -> dict[str, str]:
    (ranking,) = json.loads(harness("leaderboard", "b", "--json").stdout)["rankings"]
    return {entry["user"]: f"{entry['rank']}{'=' if entry['tied'] else ''}" for entry in ranking["entries"]}


def added(harness: Run, path: Path) -> dict[str, int]:
    document = json.loads(harness("import", path, "--json").stdout)
    names = ("submissions", "evaluations", "compilations", "calibrations")
    return {name: document[f"{name}_added"] for name in names} | {"known": document["known"], "bad": document["bad"]}


def test_all_of_it_comes_back(home: Path, harness: Run, lines: list[dict[str, Any]]) -> None:
    wanted = {"submissions": 2, "evaluations": 2, "compilations": 6, "calibrations": 4, "known": 0, "bad": 0}
    assert added(harness, home / "all.jsonl.gz") == wanted
    harness("export", home / "again.jsonl.gz")
    assert read(home / "again.jsonl.gz")[1:] == lines[1:]
    # Ada and Bob lie 2 % apart: equal by what is assumed of a CPU, 3 %, and told apart by what was calibrated.
    assert ranks(harness) == {"ada": "1", "bob": "2"}
    assert "(noise between runs, calibrated 2026-11-01 from 5 runs)" in " ".join(
        harness("leaderboard", "b").stdout.split()
    )
    with open_reader() as reader:
        assert reader.noise_calibrations("b") == [QUIET]
        assert reader.device_calibration("some CPU") == RATES
        submission = reader.submission(1)
        assert submission is not None
        kept = kept_compilations(reader, submission)
        assert [each.architecture for each in kept] == ["sm_100a", "sm_90a"]
        assert kept[1] == compilation(submission.sha256, "sm_90a", 168)
    assert "sm_90a (NVIDIA H200): COMPILED" in harness("show", 1).stdout
    shown = harness("diff", 1, 2).stdout
    assert "compiled for sm_90a" in shown
    assert "registers 168 → 96" in shown


def test_twice_adds_nothing(home: Path, harness: Run, lines: list[dict[str, Any]]) -> None:
    harness("import", home / "all.jsonl.gz")
    nothing = {"submissions": 0, "evaluations": 0, "compilations": 0, "calibrations": 0, "known": 6, "bad": 0}
    assert added(harness, home / "all.jsonl.gz") == nothing
    harness("export", home / "again.jsonl.gz")
    assert read(home / "again.jsonl.gz")[1:] == lines[1:]


def test_what_was_said_later_is_added_to_what_is_known(home: Path, harness: Run, lines: list[dict[str, Any]]) -> None:
    first, *calibrations, ada, bob = lines
    before = [{**each, "compilations": []} for each in (ada, bob)]
    assert added(harness, write(home / "a.jsonl", first, *before))["submissions"] == 2
    later = added(harness, write(home / "b.jsonl", first, {**ada, "notes": [], "tags": []}, bob, calibrations[0]))
    assert later == {"submissions": 0, "evaluations": 0, "compilations": 6, "calibrations": 1, "known": 0, "bad": 0}


def test_the_newest_compilation_stays_whatever_comes_first(
    home: Path, harness: Run, lines: list[dict[str, Any]]
) -> None:
    first, *_, ada, _ = lines
    sha256 = ada["compilations"][0]["report"]["source_sha256"]

    def with_registers(*registers: int) -> dict[str, Any]:
        """One said so many seconds after the day as it has registers."""
        every = [
            {
                "leaderboard": "b",
                "architecture": "sm_90a",
                "created_at": time_text(DAY + timedelta(seconds=each)),
                "report": to_dict(compilation(sha256, "sm_90a", each)),
            }
            for each in registers
        ]
        return {**ada, "compilations": every}

    def kept() -> int:
        with open_reader() as reader:
            submission = reader.submission(1)
            assert submission is not None
            assert submission.sha256 == sha256
            (only,) = kept_compilations(reader, submission)
        return only.kernels[0].resources.registers

    for registers, wanted, count in ((50, 50, 1), (40, 50, 0), (50, 50, 0), (60, 60, 1)):
        assert added(harness, write(home / "a.jsonl", first, with_registers(registers)))["compilations"] == count
        assert kept() == wanted
    assert added(harness, write(home / "a.jsonl", first, with_registers(61, 63, 62)))["compilations"] == 1
    assert kept() == 63
    # Two submissions of one source in one file, the older word last.
    twin = {**with_registers(70), "origin": "other/1", "evaluations": []}
    assert added(harness, write(home / "a.jsonl", first, with_registers(71), twin))["compilations"] == 1
    assert kept() == 71


def test_an_older_calibration_does_not_take_the_place_of_a_newer_one(
    home: Path, harness: Run, lines: list[dict[str, Any]]
) -> None:
    newer = replace(LOUD, created_at=DAY + timedelta(days=1))
    with Store.open() as store:
        store.keep_calibration(newer)
        store.keep_calibration(replace(RATES, created_at=DAY + timedelta(days=1), figures={"noop_ns": 1.0}))
    assert added(harness, home / "all.jsonl.gz")["calibrations"] == 4
    assert ranks(harness) == {"ada": "1=", "bob": "1="}
    with open_reader() as reader:
        assert reader.noise_calibrations("b") == [newer]
        of_device = reader.device_calibration("some CPU")
        assert of_device is not None
        assert of_device.figures == {"noop_ns": 1.0}
        (of,) = reader.board_classes("b")
        assert of.rank_class.delta == newer.noise.delta
    with Store.open() as store:
        evaluated(store, "bob", 1040)
    with open_reader() as reader:
        assert reader.history("bob")[-1].rank_then == 1  # 2 by the older one, which has the higher id


def test_the_first_format_is_read(home: Path, harness: Run, lines: list[dict[str, Any]]) -> None:
    first, *_, ada, bob = lines
    for line in (ada, bob):
        del line["kind"], line["compilations"]
    old = write(home / "old.jsonl", {**first, "format": 1}, ada, bob)
    wanted = {"submissions": 2, "evaluations": 2, "compilations": 0, "calibrations": 0, "known": 0, "bad": 0}
    assert added(harness, old) == wanted
    done = harness("import", write(home / "new.jsonl", {**first, "format": 4}, ada))
    assert done.exit_code == 2
    assert "the file has format 4; this harness reads formats 1 to 3" in done.stderr


def test_bad_lines_are_told_and_the_rest_goes_in(home: Path, harness: Run, lines: list[dict[str, Any]]) -> None:
    first, rates, noise, *_, ada, bob = lines
    assert (rates["kind"], noise["kind"]) == ("device_calibration", "noise_calibration")
    (compiled, *_) = ada["compilations"]
    bad = [
        {**rates, "kind": "calibration"},
        {**rates, "kind": 3},
        {**rates, "figures": {"noop_ns": "fast"}},
        {**rates, "state": {"before": 1}},
        {**rates, "device_name": ""},
        {**noise, "scores_ns": [1000.0, 1001.0]},
        {**noise, "scores_ns": [1000.0, 0.0, 1.0]},
        {**noise, "grid": "huge"},
        {**noise, "created_at": "2026-11-01"},
        {**ada, "compilations": {}},
        {**ada, "compilations": [{**compiled, "architecture": ""}]},
        {**ada, "compilations": [{**compiled, "report": "fine"}]},
        {**ada, "compilations": [{**compiled, "created_at": None}]},
    ]
    done = harness("import", write(home / "bad.jsonl", first, rates, *bad, noise, bob))
    assert done.exit_code == 2
    assert "added 1 submission and 1 evaluation, 3 compilations, 2 calibrations" in done.stdout
    assert [line.partition(": ")[2].partition(": ")[2] for line in done.stderr.splitlines()] == [
        "its kind is 'calibration' (allowed: submission, device_calibration, noise_calibration)",
        "'kind' of the line is a number, not text",
        "'figures' of the line holds something else than numbers from 0 on",
        "'state' of the line holds something else than readings of a device by name",
        "'device_name' of the line is empty",
        "the noise between runs needs 3 scores, there are 2",
        "'scores_ns' of the line holds something else than positive numbers",
        "'grid' of the line is 'huge' (allowed: full, cpu)",
        "'created_at' of the line has no time zone: 2026-11-01",
        "'compilations' of the line is an object, not a list",
        "'architecture' of a compilation is empty",
        "'report' of a compilation is text, not an object",
        "'created_at' of a compilation is null, not text",
    ]


def test_an_export_of_one_board_has_its_noise_and_the_devices(
    home: Path, harness: Run, lines: list[dict[str, Any]]
) -> None:
    harness("import", home / "all.jsonl.gz")
    harness("export", home / "c.jsonl", "--user", "bob", "--leaderboard", "b")
    documents = [json.loads(line) for line in (home / "c.jsonl").read_text().splitlines()[1:]]
    kinds = [(each["kind"], each.get("leaderboard"), each.get("user_name")) for each in documents]
    assert kinds == [
        ("device_calibration", None, None),
        ("noise_calibration", "b", None),
        ("noise_calibration", "b", None),
        ("submission", "b", "bob"),
    ]


def test_a_source_that_is_gone_brings_no_compilation(home: Path, harness: Run, lines: list[dict[str, Any]]) -> None:
    """A known submission whose line tells another source than the store has."""
    first, *_, ada, _ = lines
    harness("import", home / "all.jsonl.gz")
    later = {**ada["compilations"][0], "created_at": time_text(datetime.now(UTC) + timedelta(days=1))}
    other = {**ada, "source": "pass  # changed\n", "compilations": [later]}
    assert added(harness, write(home / "a.jsonl", first, other))["compilations"] == 0
    db = connect(location())
    orphans = "SELECT count(*) FROM compilations WHERE source_sha256 NOT IN (SELECT sha256 FROM sources)"
    assert db.value(orphans) == 0
    db.close()


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
NAMES = TEXT.filter(bool)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
FIGURES = st.floats(0, allow_infinity=False) | st.integers(0, 2**70)
DEVICES = st.builds(
    DeviceCalibration,
    device=st.builds(Device, NAMES, NAMES, st.dictionaries(TEXT, TEXT | st.integers(), max_size=2)),
    figures=st.dictionaries(TEXT, FIGURES, max_size=3),
    created_at=MOMENTS,
    versions=st.dictionaries(TEXT, TEXT, max_size=2),
    state=st.dictionaries(TEXT, st.dictionaries(TEXT, st.none() | FIGURES | TEXT | st.lists(TEXT)), max_size=2),
)
NOISES = st.builds(
    NoiseCalibration,
    key=st.builds(NoiseKey, NAMES, NAMES, st.sampled_from(GridName), st.sampled_from(Protocol)),
    device_kind=NAMES,
    scores_ns=st.lists(st.floats(1e-3, 1e12), min_size=3, max_size=9).map(tuple),
    created_at=MOMENTS,
)


@given(DEVICES | NOISES)
def test_a_calibration_comes_back_as_it_was(calibration: Calibration) -> None:
    """By way of the table's columns, without a database."""
    table, columns = table_and_columns(calibration)
    (kind,) = (kind for kind, of in calibration_lines.TABLES.items() if of == table)
    back = record_of(calibration_lines.line_of(kind, {"id": 7, **columns}))
    assert back == calibration
    assert not isinstance(back, tuple)
    assert table_and_columns(back) == (table, columns)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(calibration=st.sampled_from([QUIET, RATES]), data=st.data())
def test_no_calibration_brings_the_import_down(calibration: Calibration, data: st.DataObject) -> None:
    table, columns = table_and_columns(calibration)
    kind = {of: kind for kind, of in calibration_lines.TABLES.items()}[table]
    line = json.loads(calibration_lines.line_of(kind, columns))
    line[data.draw(st.sampled_from(sorted(line)))] = data.draw(JSON)
    with suppress(RowError):
        table_and_columns(record_of(json.dumps(line)))

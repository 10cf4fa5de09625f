"""δ from scores, by hand; and what ranks are made with once it is calibrated."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import GridName
from harness.cli.main import cli
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
from harness.measure.noise import LEAST_DELTA, NoiseCalibration, NoiseKey, coefficient_of_variation, delta_of
from harness.measure.ranking import ASSUMED_DELTA
from harness.store import Reader, Store, open_reader, standings

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)
HEADER = EvaluationHeader(
    mode=Mode.LEADERBOARD,
    protocol=Protocol.SEALED,
    grid=GridName.CPU,
    device=Device("cpu", "some CPU"),
    isolation=IsolationLevel.NAMESPACES,
    interpreted=False,
    seed=1,
    versions={},
    log="",
    cases_planned=1,
)
KEY = NoiseKey("some CPU", "b", GridName.CPU, Protocol.SEALED)
QUIET = NoiseCalibration(KEY, "cpu", (1000.0, 1001.0, 999.0, 1000.5, 999.5), DAY)


def test_delta_of_three_and_of_five_scores() -> None:
    # Mean 100, standard deviation 1, so s = 0.01; t = 4.303 for 2 degrees of freedom.
    assert coefficient_of_variation([99, 100, 101]) == pytest.approx(0.01)
    assert delta_of([99, 100, 101]) == pytest.approx(4.303 * 2**0.5 * 0.01)
    # Squares 4 + 1 + 0 + 1 + 4 = 10 over 4: standard deviation √2.5; t = 2.776 for 4.
    assert delta_of([98, 99, 100, 101, 102]) == pytest.approx(2.776 * 2**0.5 * 2.5**0.5 / 100)


def test_delta_is_never_below_a_thousandth() -> None:
    assert delta_of([5.0, 5.0, 5.0]) == LEAST_DELTA == 0.001


def test_too_few_scores() -> None:
    with pytest.raises(ValueError, match="needs 3 scores, there are 2"):
        delta_of([1.0, 2.0])
    with pytest.raises(ValueError, match="two scores"):
        coefficient_of_variation([1.0])


@given(st.lists(st.floats(1.0, 1e9), min_size=3, max_size=80), st.floats(1e-3, 1e3))
def test_delta_does_not_depend_on_the_unit_or_the_order(scores: list[float], unit: float) -> None:
    delta = delta_of(scores)
    assert delta >= LEAST_DELTA
    assert delta_of([score * unit for score in reversed(scores)]) == pytest.approx(delta, rel=1e-6, abs=1e-9)


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ada at 1000 ns and Bob at 1020 ns, within the assumed 3 % of a CPU."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    with Store.open() as store:
        for user, time_ns in (("ada", 1000), ("bob", 1020)):
            submit(store, user, time_ns)
    return tmp_path


def submit(store: Store, user: str, time_ns: int, board: str = "b") -> int:
    evaluation = store.begin_evaluation(store.add_submission(board, user, "k.py", f"pass  # {user}"), HEADER)
    case = CaseResult(CaseKind.BENCHMARK, 0, {}, Status.PASSED, samples=Samples((time_ns,) * 15))
    store.add_case(evaluation, case)
    store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    return evaluation


def shown_ranks() -> dict[str, str]:
    result = CliRunner().invoke(cli, ["leaderboard", "b", "--json"])
    (ranking,) = json.loads(result.stdout)["rankings"]
    return {entry["user"]: f"{entry['rank']}{'=' if entry['tied'] else ''}" for entry in ranking["entries"]}


def test_scores_within_the_assumed_noise_tie_until_it_is_calibrated(filled: Path) -> None:
    assert shown_ranks() == {"ada": "1=", "bob": "1="}
    assert "(assumed noise between runs)" in CliRunner().invoke(cli, ["leaderboard", "b"]).stdout
    with Store.open() as store:
        store.keep_calibration(QUIET)
    assert shown_ranks() == {"ada": "1", "bob": "2"}
    screen = " ".join(CliRunner().invoke(cli, ["leaderboard", "b"]).stdout.split())
    assert "(noise between runs, calibrated 2026-11-01 from 5 runs)" in screen
    with open_reader() as reader:
        assert [rank_of_latest(reader, user) for user in ("ada", "bob")] == [1, 2]
        (of,) = reader.board_classes("b")
        assert of.rank_class.delta == QUIET.noise.delta


def rank_of_latest(reader: Reader, user: str) -> int | None:
    submission = reader.latest_submission(user, "b")
    assert submission is not None
    (row,) = reader.evaluations(submission.id)
    return None if row.rank is None else row.rank.number


def test_the_newest_calibration_counts_and_only_for_what_it_was_made_for(filled: Path) -> None:
    with Store.open() as store:
        for other in (
            replace(KEY, device="another CPU"),
            replace(KEY, leaderboard="c"),
            replace(KEY, grid=GridName.FULL),
            replace(KEY, protocol=Protocol.POPCORN),
        ):
            store.keep_calibration(replace(QUIET, key=other))
    with open_reader() as reader:
        assert reader.board_classes("b")[0].rank_class.delta == ASSUMED_DELTA["cpu"]
    noisy = replace(QUIET, scores_ns=(1000.0, 1010.0, 990.0))
    with Store.open() as store:
        store.keep_calibration(QUIET)
        store.keep_calibration(noisy)
    with open_reader() as reader:
        assert reader.board_classes("b")[0].rank_class.delta == noisy.noise.delta
        assert noisy in reader.noise_calibrations("b")
        assert QUIET not in reader.noise_calibrations("b")
        assert [row.rank_class.delta for row in reader.history("ada") if row.rank_class] == [noisy.noise.delta]


def test_the_rank_of_the_day_uses_the_calibrated_noise(filled: Path) -> None:
    with Store.open() as store:
        store.keep_calibration(QUIET)
        submit(store, "eve", 1010)
    with open_reader() as reader:
        (row,) = reader.history("eve")
    assert row.rank_then == 2  # 1 by the assumed 3 %


def test_calibrating_changes_no_derived_table(filled: Path) -> None:
    from harness.store.database import connect
    from harness.store.location import location

    with Store.open() as store:
        store.keep_calibration(QUIET)
    database = connect(location())
    with database.transaction():
        assert standings.differences(database) == []
    database.close()

"""The derived tables say what the pure functions say of the evaluations, whatever was written and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_ranked_reads import HEADER, PASSED, add

from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    IsolationLevel,
    Protocol,
    Reason,
    ReasonCode,
    Samples,
    Status,
)
from harness.measure.ranking import best_per_user, fastest_first, pool_by_source, rank_among
from harness.store import Reader, Store, open_reader, standings
from harness.store.database import Database

HEADERS = (
    HEADER,
    replace(HEADER, isolation=IsolationLevel.NAMESPACES),
    replace(HEADER, protocol=Protocol.POPCORN),
    replace(HEADER, interpreted=True),
    replace(HEADER, isolation=IsolationLevel.NONE),
)
RUNS = st.tuples(
    st.sampled_from(["ada", "bob", "eve"]), st.integers(1, 40), st.sampled_from(HEADERS), st.sampled_from("abc")
)
STEPS = st.lists(RUNS | st.integers(1, 12), max_size=14)
"""A run, or the deletion of the submission of that id."""


def agrees(reader: Reader) -> None:
    """Standings, sources and ranks against the pure functions over every run."""
    entries = reader.entries("board")
    for of in reader.board_classes("board"):
        of_class = [entry for entry in entries if entry.rank_class == of.rank_class]
        if not of.ranks:
            assert not [entry for entry in of_class if of.unranked is None]
            continue
        best = best_per_user(of_class)
        assert reader.best_of_users(of) == (best, len(best))
        assert reader.best_of_users(of, 1) == (best[:1], len(best))
        sources = fastest_first(pool_by_source(of_class))
        assert reader.all_sources(of) == (sources, len(sources))
        for limit in range(len(sources) + 2):
            assert reader.all_sources(of, limit) == (sources[:limit], len(sources))
        assert reader.best_scores(of.rank_class) == {entry.user: entry.score.value_ns for entry in best}
        for entry in of_class:
            row = reader.evaluation(entry.evaluation_id)
            assert row is not None
            assert row.rank == rank_among(entry, of_class)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_derived_tables_agree(home: Path, raw: Callable[[], Database], steps: list[object]) -> None:
    db = start_afresh(raw)
    for step in steps:
        if isinstance(step, tuple):
            user, time_ns, header, source = step
            add(user, 100 * time_ns, header, source=source)
        elif db.value("SELECT 1 FROM submissions WHERE id = :id", {"id": step}):
            with Store.open() as store:
                store.delete_submission(step)  # type: ignore[arg-type]
    with open_reader() as reader:
        agrees(reader)
    with db.transaction():
        assert standings.differences(db) == []
    db.close()  # a server has a hundred connections, and a test may have more examples


def test_the_fastest_sources_are_found_below_lucky_runs(home: Path) -> None:
    """Sources whose fastest run is faster than any other's, and whose median is not."""
    for number in range(6):
        for time_ns in (100 + number, 9000 + number, 9000 + number):
            add("ada", time_ns, source=f"lucky {number}")
    for number in range(4):
        add("bob", 500 + number, source=f"steady {number}")
    with open_reader() as reader:
        agrees(reader)
        (of,) = reader.board_classes("board")
        (first, second), total = reader.all_sources(of, 2)
    assert (first.user, first.score.value_ns, second.score.value_ns, total) == ("bob", 500, 501, 10)


def start_afresh(raw: Callable[[], Database]) -> Database:
    Store.open().close()
    db = raw()
    tables = ("case_results", "evaluations", "submissions", "sources", "rank_classes", "scored_runs", "user_standings")
    for table in tables:
        db.run(f"DELETE FROM {table}")
    return db


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM user_standings",
        "UPDATE user_standings SET score_ns = score_ns + 1",
        "UPDATE scored_runs SET score_low_ns = NULL",
        "UPDATE rank_classes SET unranked = 'interpreted'",
    ],
)
def test_harm_is_found_and_mended(home: Path, raw: Callable[[], Database], harm: str) -> None:
    add("ada", 1000)
    db = raw()
    assert db.run(harm) == 1
    with db.transaction():
        assert standings.differences(db)
        assert standings.differences(db) == []


def test_a_class_that_is_behind_is_read_from_its_runs(home: Path, raw: Callable[[], Database]) -> None:
    """As while an import is under way, or after one that was killed; whoever writes next puts it right."""
    for user, time_ns in (("ada", 1000), ("bob", 2000), ("ada", 1500)):
        add(user, time_ns)
    db = raw()
    db.run("UPDATE rank_classes SET stale = (1 = 1)")
    db.run("UPDATE user_standings SET score_ns = 1, runs = 9, all_runs = 9")
    with open_reader() as reader:
        agrees(reader)
        assert reader.best_score_ns("board", "ada") == 1000.0
    Store.open().close()
    assert standings.stale_classes(db) == []
    with db.transaction():
        assert standings.differences(db) == []


def test_the_rank_of_the_day_while_a_class_is_behind(home: Path, raw: Callable[[], Database]) -> None:
    add("ada", 1000)
    with Store.open() as store:
        raw().run("UPDATE rank_classes SET stale = (1 = 1)")
        raw().run("DELETE FROM user_standings")
        evaluation = store.begin_evaluation(store.add_submission("board", "bob", "a.py", "pass"), HEADER)
        case = CaseResult(CaseKind.BENCHMARK, 0, {}, Status.PASSED, samples=Samples((2000,) * 7))
        store.add_case(evaluation, case)
        store.finish_evaluation(evaluation, PASSED)
    with open_reader() as reader:
        assert [row.rank_then for row in reader.history("bob")] == [2]


def test_the_rank_of_the_day_is_kept(home: Path) -> None:
    add("ada", 2000)
    add("bob", 1000)
    add("ada", 1500)
    with open_reader() as reader:
        assert [row.rank_then for row in reader.history("ada")] == [1, 2]
        assert [row.rank_then for row in reader.history("bob")] == [1]
        (of,) = reader.board_classes("board")
        assert reader.ranks_before(of, datetime(2020, 1, 1, tzinfo=UTC)) == {}
        assert {user: str(rank) for user, rank in reader.ranks_before(of, datetime.now(UTC)).items()} == {
            "ada": "2",
            "bob": "1",
        }


def test_who_was_where_before(home: Path, raw: Callable[[], Database]) -> None:
    for user, time_ns, day in (("ada", 2000, 1), ("bob", 1000, 2), ("ada", 500, 3)):
        evaluation = add(user, time_ns)
        moment = f"2026-11-0{day}T12:00:00.000000Z"
        raw().run("UPDATE scored_runs SET finished_at = :moment WHERE evaluation_id = :id",
                  {"moment": moment, "id": evaluation})  # fmt: skip
    with open_reader() as reader:
        (of,) = reader.board_classes("board")
        then = reader.ranks_before(of, datetime(2026, 11, 3, tzinfo=UTC))
    assert {user: rank.number for user, rank in then.items()} == {"bob": 1, "ada": 2}


def test_unranked_by_a_reason_of_its_own(home: Path) -> None:
    left_out = Reason(ReasonCode.INTERPRETED, "by Triton's interpreter")
    add("ada", 1000, HEADER, replace(PASSED, rank_reason=left_out))
    with open_reader() as reader:
        assert reader.entries("board") == []
        assert reader.unranked("board") == {ReasonCode.INTERPRETED: 1}
        assert [row.rank_then for row in reader.history("ada")] == [None]

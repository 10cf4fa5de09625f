from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from test_durability import HEADER as TEST_HEADER

from harness.evaluation.record import CaseKind, CaseResult, EvaluationOutcome, IsolationLevel, Mode, Samples, Status
from harness.measure.scoring import benchmarks_digest
from harness.measure.statistics import Figure
from harness.store import Store, codec, open_reader, queries
from harness.store.database import Database, connect_postgres
from harness.store.location import location
from harness.store.migrate import alembic_config
from harness.store.schema import metadata

Opener = Callable[[], Database]
CASES = [
    CaseResult(CaseKind.TEST, 0, {"n": 1, "seed": 3}, Status.PASSED),
    *(CaseResult(CaseKind.BENCHMARK, i, {"n": (2, 4), "seed": i}, Status.PASSED) for i in range(2)),
]
HEADER = replace(TEST_HEADER, mode=Mode.LEADERBOARD, isolation=IsolationLevel.NAMESPACES)


def an_engine() -> Engine:
    place = location()
    if place.dsn is None:
        return create_engine(place.url)
    dsn = place.dsn
    return create_engine("postgresql+psycopg://", creator=lambda: connect_postgres(dsn, autocommit=False))


def differing() -> list[str]:
    """The steps that would make the store's tables those of `schema`."""
    engine = an_engine()
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        steps = compare_metadata(context, metadata)
    engine.dispose()
    return [str(step[0] if isinstance(step, tuple) else step[0][0]) for step in steps]


def test_migrations_lead_to_the_tables_in_schema(home: Path) -> None:
    Store.open().close()
    assert differing() == []


def test_a_column_that_no_migration_makes_is_noticed(home: Path, raw: Opener) -> None:
    """The test above can fail."""
    Store.open().close()
    raw().run("ALTER TABLE submissions ADD COLUMN extra TEXT")
    assert differing() == ["remove_column"]


def make_old_store(db: Database) -> None:
    """A store of the second schema, with one ranked evaluation of two benchmarks."""
    engine = an_engine()
    with engine.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    engine.dispose()
    moment = "2026-11-01T00:00:00.000000Z"
    db.insert("sources", ("sha256", "text"), [("a" * 64, "pass")])
    names = ("leaderboard", "user_name", "file_name", "source_sha256", "created_at", "gpus")
    db.insert("submissions", names, [("b", "ada", "a.py", "a" * 64, moment, "[]")])
    columns = {
        **codec.header_columns(HEADER),
        **codec.outcome_columns(EvaluationOutcome(Status.PASSED, None)),
        **codec.score_columns(Figure(1000.0, None)),
        **dict.fromkeys(("started_at", "finished_at"), moment),
        **{"submission_id": 1, "host": "", "pid": 0, "process_start": ""},
    }
    known = [name for name in db.columns("evaluations") if name in columns]
    db.insert("evaluations", known, [tuple(columns[name] for name in known)])
    every = {"evaluation_id": 1, **codec.case_columns(CASES[0])}
    known = [name for name in db.columns("case_results") if name in every]
    rows = [{"evaluation_id": 1, **codec.case_columns(case)} for case in CASES]
    db.insert("case_results", known, [tuple(row[name] for name in known) for row in rows])


def test_an_old_store_is_migrated_with_its_rankings(home: Path, raw: Opener) -> None:
    if location().dsn is None:
        (home / "harness.sqlite3").touch()
    make_old_store(raw())
    with open_reader() as reader:
        (entry,) = reader.entries("b")
        (of,) = reader.board_classes("b")
        assert reader.best_of_users(of) == ([entry], 1)
        assert of.rank_class.benchmarks == benchmarks_digest(CASES) != ""
        (row,) = reader.history("ada")
        assert row.rank_class == of.rank_class
    assert (entry.user, entry.score.value_ns) == ("ada", 1000.0)
    assert differing() == []


def test_scores_that_an_earlier_harness_gave_parts_of_a_grid_are_gone(home: Path, raw: Opener) -> None:
    """Those that are seen to be parts: by the ranked run of the same board, or by the numbers alone."""
    whole, edited = [(0, 2), (1, 4), (2, 8)], [(0, 3)]
    given = [
        ("b", Mode.LEADERBOARD, whole),
        ("b", Mode.BENCHMARK, whole),
        ("b", Mode.BENCHMARK, whole[:1]),
        ("b", Mode.BENCHMARK, whole[1:]),
        ("b", Mode.BENCHMARK, edited),
        ("other", Mode.BENCHMARK, whole[:2]),
        ("other", Mode.BENCHMARK, whole[2:]),
        ("grown", Mode.BENCHMARK, whole[:2]),  # was all of it
        ("grown", Mode.LEADERBOARD, whole),
        ("grown", Mode.BENCHMARK, whole[:2]),
    ]
    with Store.open() as store:
        for leaderboard, mode, numbers in given:
            submission = store.add_submission(leaderboard, "ada", "a.py", f"{mode} {numbers}")
            evaluation = store.begin_evaluation(submission, replace(HEADER, mode=mode))
            for number, n in numbers:
                samples = Samples((2000 + n,) * 7, (100,) * 7)
                spec = {"n": n, "seed": submission}
                store.add_case(evaluation, CaseResult(CaseKind.BENCHMARK, number, spec, Status.PASSED, samples=samples))
            store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None))
    db = raw()
    db.run("UPDATE evaluations SET score_ns = 1900.0")  # which it gave all of them
    for _ in range(2):  # the second time there is nothing to do
        db.run("UPDATE alembic_version SET version_num = '0009'")
        Store.open().close()
    with open_reader() as reader:
        found = [reader.evaluations(number + 1)[0] for number in range(len(given))]
        (best,), _ = reader.best_of_users(reader.board_classes("b")[0])
    assert best.submission_id == 1
    assert ["" if row.outcome.rank_reason is None else row.outcome.rank_reason.message for row in found] == [
        "",
        "",
        "only 1 of 3 benchmark cases was run",
        "only 2 of 3 benchmark cases were run",
        "",
        "",  # nothing tells that there is more of this board
        "only some of the benchmark cases were run",
        "",
        "",
        "only 2 of 3 benchmark cases were run",
    ]
    assert [row.score is None for row in found] == [row.outcome.rank_reason is not None for row in found]


def test_the_reader_knows_the_newest_version() -> None:
    script = ScriptDirectory.from_config(alembic_config())
    revisions = [revision.revision for revision in script.walk_revisions()]
    assert revisions[0] == queries.SCHEMA_VERSION
    assert revisions == sorted(revisions, reverse=True)


def test_opening_twice_changes_nothing(home: Path) -> None:
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
    Store.open().close()
    with open_reader() as reader:
        assert reader.last_submission_id() == 1


def test_wal(sqlite_home: Path) -> None:
    Store.open().close()
    connection = sqlite3.connect(sqlite_home / "harness.sqlite3")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_reading_imports_no_sqlalchemy(home: Path) -> None:
    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "pass")
    code = (
        "import sys\n"
        "from harness.store import open_reader\n"
        "with open_reader() as reader: assert reader.history('ada')\n"
        "print(sorted({'sqlalchemy', 'alembic', 'torch', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

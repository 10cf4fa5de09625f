"""What all tests share."""

from __future__ import annotations

import gc
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from click.testing import Result

    from harness.compiling.workplace import Workplace

# Examples are timed by the wall, and two cores have other things to do: what takes long is seen in the durations.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

# Two test processes on two cores: more threads than that wait for one another more than they work. Set before torch is
# imported anywhere; commands that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the tests import stays: to look through all of torch for garbage again and again takes longer than many a test.
gc.set_threshold(50_000)

sys.path.insert(0, str(Path(__file__).parent))

from postgres_server import NoServerError, PostgresServer  # noqa: E402

TIMED = (
    "exploits",
    "legit",
    "comparing",
    "calibrating",
    "faults",
    "evaluation",
    "popcorn",
    "sandbox",
    "cli_screens",
    "devices",
)
"""Folders whose tests run whole processes against the clock, on a machine whose load is not theirs alone."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="also compile and emulate kernels whole, which takes minutes"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests against the clock have three tries, a few seconds apart; everything else has one."""
    skip = pytest.mark.skip(reason="takes long: run it with scripts/test --thorough")
    for item in items:
        if item.get_closest_marker("thorough") and not config.getoption("--thorough"):
            item.add_marker(skip)
        if any(part in TIMED for part in item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=3))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server; where there can be none, the test is skipped and says so."""
    try:
        server = PostgresServer()
        server.__enter__()
    except NoServerError as error:
        pytest.skip(f"NOT TESTED on PostgreSQL: {error}")
    yield server
    server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def workplace() -> Iterator[Workplace]:
    """Where files are compiled: warm, so that each compilation need not import torch and Triton again."""
    from harness.compiling.workplace import Workplace
    from harness.sandbox import best_level

    with Workplace(best_level(), ["triton"]) as place:
        yield place


@pytest.fixture
def harness_compile(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The real `harness compile`, over the warm workplace."""
    from click.testing import CliRunner

    from harness.cli.main import cli
    from harness.compiling import compile as supervisor

    original = supervisor.compile_file
    monkeypatch.setattr(supervisor, "compile_file", lambda *a, **k: original(*a, **{**k, "workplace": workplace}))

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(cli, ["compile", *map(str, arguments)], standalone_mode=False)

    return run


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.create(f"t{uuid.uuid4().hex}")

"""`harness history` of a user who works on several boards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from sample_store import HEADER, PASSED, benchmark_case

from harness.boards.board import GridName
from harness.evaluation.record import Device, IsolationLevel, Protocol
from harness.measure.noise import NoiseCalibration, NoiseKey
from harness.store import Store, open_reader
from harness.store.database import connect
from harness.store.location import location
from harness.store.ranked import Place

Run = Callable[..., Result]
_WHEN = re.compile(r"[A-Z][a-z]{2} \d\d \d\d:\d\d")


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.output.splitlines()]


def scored(store: Store, board: str, user: str, microseconds: float, file_name: str = "k.py", **header: object) -> int:
    submission = store.add_submission(board, user, file_name, f"# {board} {user} {microseconds}\n")
    evaluation = store.begin_evaluation(submission, replace(HEADER, **header))  # type: ignore[arg-type]
    store.add_case(evaluation, benchmark_case(0, microseconds))
    store.finish_evaluation(evaluation, PASSED)
    return submission


@pytest.fixture
def boards(home: Path) -> Path:
    """Ada's on `cholesky`, on the CPU and on a GPU by two protocols, on `moe`, and one that was never evaluated."""
    gpu = {"grid": GridName.FULL, "device": Device("cuda", "NVIDIA H200", {})}
    with Store.open() as store:
        scored(store, "cholesky", "ada", 200.0)
        scored(store, "cholesky", "bob", 150.0)
        scored(store, "cholesky", "eve", 101.0)
        scored(store, "cholesky", "ada", 100.0)
        scored(store, "moe", "bob", 10.0)
        third = scored(store, "moe", "ada", 30.0)
        scored(store, "cholesky", "ada", 20.0, **gpu)
        scored(store, "cholesky", "ada", 25.0, **gpu, protocol=Protocol.POPCORN)
        store.add_submission("[new] board", "ada", "k.py", "pass\n")
        store.add_note(third, "why so slow?")
        store.change_tags(third, add=["tma"])
    return home


def test_a_row_a_board_and_the_latest_of_all(boards: Path, harness: Run) -> None:
    shown = lines(harness("history"))
    assert shown[:2] == ["ada · 6 submissions on 3 boards", "board device subs last best rank trend"]
    # The time stands in three words before the score.
    rows = [_WHEN.sub("when", line) for line in shown[3 : shown.index("")]]
    assert rows == [
        "[new] board not evaluated 1 when",
        "cholesky NVIDIA H200 · popcorn 1 when 25.00 µs",
        "cholesky NVIDIA H200 1 when 20.00 µs 1 of 1",
        "moe Intel Xeon @ 2.10GHz 1 when 30.00 µs 2 of 2",
        "cholesky Intel Xeon @ 2.10GHz 2 when 100.00 µs 1 of 3 █▁",
    ]
    latest = [line.split()[0] for line in shown[shown.index("latest") + 3 :] if line[:1].isdigit()]
    assert latest == ["9", "8", "7", "6", "4", "1", "6"]  # the last one is the remark on 6
    assert "6 #tma “why so slow?”" in shown
    assert " ".join(shown).count("rank: ") == 1
    assert "rank: the place among the users of the board, now" in " ".join(shown)
    assert shown[-1] == "`harness history '[new] board'` tells what changed in each"
    assert max(len(line) for line in harness("history").output.splitlines()) <= 80


def test_limit_is_of_each_table(boards: Path, harness: Run) -> None:
    shown = lines(harness("history", "--limit", "2"))
    assert [line for line in shown if line.startswith("…")] == [
        "… 3 further lines; --limit 0 shows them",
        "… 4 older; --limit 0 shows them",
    ]
    assert not any(line.startswith("…") for line in lines(harness("history", "--limit", "0")))


def test_one_line_that_is_left_out_is_one(boards: Path, harness: Run) -> None:
    assert "… 1 further line; --limit 0 shows it" in lines(harness("history", "--limit", "4"))


def test_filters_choose_what_is_counted(boards: Path, harness: Run) -> None:
    shown = lines(harness("history", "--device", "Xeon"))
    assert shown[0] == "ada · 3 submissions on 2 boards"
    assert "cholesky · ada" in lines(harness("history", "--device", "H200"))  # one board is shown in full
    assert lines(harness("history", "--tag", "tma"))[0] == "moe · ada"


def test_every_board_in_full_and_as_json(boards: Path, harness: Run) -> None:
    assert "moe · ada" in lines(harness("history", "--techniques"))
    document = json.loads(harness("history", "--json").output)
    assert [row["id"] for row in document["submissions"]] == [9, 8, 7, 6, 4, 1]


def test_the_place_is_that_of_the_ranking(boards: Path) -> None:
    """By the index as by reading all scores, for every user, with another δ, and while the standings are behind."""

    def places() -> dict[str, Place | None]:
        with open_reader() as reader:
            of = next(of for of in reader.board_classes("cholesky") if of.ranks and of.rank_class.grid is GridName.CPU)
            entries, total = reader.best_of_users(of)
            of_class = of.rank_class
            found = {user: reader.places(user, [of_class]).get(of_class) for user in ("ada", "bob", "eve", "nobody")}
        assert total == len(entries) == 3
        return found

    first, second = Place(1, 3), Place(2, 3)
    assert places() == {"ada": first, "eve": first, "bob": Place(3, 3), "nobody": None}
    key = NoiseKey(HEADER.device.name, "cholesky", GridName.CPU, Protocol.SEALED)
    with Store.open() as store:
        store.keep_calibration(NoiseCalibration(key, "cpu", (1e3, 1e3, 1e3), datetime(2026, 1, 1, tzinfo=UTC)))
    assert places() == {"ada": first, "eve": second, "bob": Place(3, 3), "nobody": None}
    db = connect(location())
    db.run("UPDATE rank_classes SET stale = (1 = 1)")
    db.run("DELETE FROM user_standings")
    db.close()
    assert places() == {"ada": first, "eve": second, "bob": Place(3, 3), "nobody": None}


def test_isolation_does_not_part_a_board(home: Path, harness: Run) -> None:
    with Store.open() as store:
        scored(store, "cholesky", "ada", 200.0)
        scored(store, "cholesky", "ada", 100.0, isolation=IsolationLevel.NONE)
        scored(store, "moe", "ada", 30.0)
    shown = lines(harness("history"))
    assert sum(line.startswith("cholesky Intel") for line in shown) == 1

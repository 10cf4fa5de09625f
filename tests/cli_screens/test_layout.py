"""Tables fit the terminal, whatever the names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from sample_store import SLOW, passed

from harness.cli.formatting import cells
from harness.cli.layout import LEAST_NAME, shares
from harness.store import Store

Run = Callable[..., Result]


def test_the_widest_gives_way_first() -> None:
    assert shares(30, [10, 10]) == [10, 10]
    assert shares(30, [40, 10]) == [20, 10]
    assert shares(30, [40, 40]) == [15, 15]
    assert shares(3, [40, 40, 5]) == [8, 8, 5]
    assert shares(3, []) == []


@given(st.integers(0, 200), st.lists(st.integers(1, 60), max_size=4))
def test_shares_fill_the_room(room: int, wanted: list[int]) -> None:
    given_ = shares(room, wanted)
    assert all(min(each, LEAST_NAME) <= got <= each for got, each in zip(given_, wanted, strict=True))
    if sum(wanted) <= room:
        assert given_ == wanted
    else:
        assert sum(given_) == room or max(given_) <= LEAST_NAME


@pytest.mark.parametrize("width", [60, 72, 80, 99, 100, 110, 120, 160])
def test_long_and_wide_names_cut_no_figure(
    home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    users = ("ada", "grace_brewster_murray_hopper_of_the_navy", "王小明王小明王小明王小明")
    with Store.open() as store:
        for number, user in enumerate(users):
            passed(store, user, SLOW + f"# {number}", (100.0 + number, 200.0, 400.0))
        passed(store, "ada", SLOW + "# again", (1e5, 2e5, 4e5))
        store.add_submission("矩阵乘法核函数第十二版矩阵乘法核函数", "ada", "a_very_long_name" * 4 + ".py", SLOW)
    for arguments in (("history",), ("history", "cholesky"), ("leaderboard", "cholesky")):
        shown = harness(*arguments).output
        assert max(map(cells, shown.splitlines())) <= width
        assert "200.00 µs" in shown
        first = "1= " if arguments[0] == "leaderboard" else " 4  "
        assert first in shown
    assert "> +1000 %" in harness("history", "cholesky").output

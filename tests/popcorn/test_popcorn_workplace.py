"""The compiler caches that one program of the popcorn protocol leaves to the next."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.boards.loader import load_board
from harness.evaluation.record import IsolationLevel
from harness.popcorn import workplace as workplace_module
from harness.popcorn.workplace import Workplace
from harness.trees import Bounds

BOARD = load_board(Path(__file__).parents[2] / "leaderboards" / "vectoradd")


def deep(cache: Path) -> None:
    at = os.open(cache, os.O_RDONLY)
    for _ in range(1200):  # more than Python recurses
        os.mkdir("d", dir_fd=at)
        outer, at = at, os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(outer)
    os.close(at)


def pipe(cache: Path) -> None:
    os.mkfifo(cache / "pipe")


@pytest.mark.parametrize("leave", [deep, pipe])
def test_caches_with_anything_in_them_harm_nobody(leave: Callable[[Path], None], tmp_path: Path) -> None:
    with Workplace(BOARD, "", cuda=False, isolation=IsolationLevel.NONE, logs=tmp_path) as workplace:
        first = workplace.folder("test")
        (first / "cache" / "object").write_text("compiled")
        leave(first / "cache")
        workplace.keep_caches(first)
        second = workplace.folder("benchmark")
        assert "pipe" not in os.listdir(second / "cache")
    assert not first.exists()
    assert not second.exists()


def test_too_much_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workplace_module, "KEPT", Bounds(1 << 20, 100))
    with Workplace(BOARD, "", cuda=False, isolation=IsolationLevel.NONE, logs=tmp_path) as workplace:
        first = workplace.folder("test")
        (first / "cache" / "object").write_bytes(bytes(1 << 20))
        workplace.keep_caches(first)
        second = workplace.folder("benchmark")
        assert os.listdir(second / "cache") == ["object"]
        (second / "cache" / "more").write_bytes(b"x")
        workplace.keep_caches(second)
        assert os.listdir(workplace.folder("leaderboard") / "cache") == []

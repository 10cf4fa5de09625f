from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.boards import find
from harness.errors import RequestError


@pytest.fixture
def empty_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without boards, and nothing shipped."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("HARNESS_LEADERBOARDS", raising=False)
    monkeypatch.setattr(find, "_PACKAGE", tmp_path / "nowhere" / "harness")
    return here


def test_the_shipped_folder_is_found_in_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert find.shipped_leaderboards() == Path(find.__file__).parents[2] / "leaderboards"
    assert find.shipped_leaderboards() in find.board_roots()


def test_the_shipped_folder_of_a_wheel_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "harness" / "_leaderboards").mkdir(parents=True)
    monkeypatch.setattr(find, "_PACKAGE", tmp_path / "harness")
    assert find.shipped_leaderboards() == tmp_path / "harness" / "_leaderboards"
    assert find._shipped("submissions") == tmp_path / "submissions"


def test_order_sets_aliases_and_broken_folders(
    empty_shop: Path, make_board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    problems = make_board("add", harness={"aliases": ["plus-long-name"]}).parent
    make_board("bad", lang="model")
    make_board("group_gemm")
    (problems / "set.yaml").write_text(
        "problems:\n  - {directory: group_gemm, name: gg, gpus: [B200]}\n  - {directory: none, name: gone}\n"
    )
    (problems / "notes.yml").write_text("just: notes\n")
    (problems / "broken.yaml").write_text("problems: [\n")
    local = empty_shop / "leaderboards"
    local.mkdir()
    monkeypatch.setenv(
        "HARNESS_LEADERBOARDS", os.pathsep.join([str(tmp_path / "missing"), str(problems), str(problems)])
    )
    found = find.scan()
    assert [board.name for board in found.boards] == ["gg", "add"]
    assert [entry.name for entry in found.broken] == ["broken.yaml", "gone", "bad"]
    assert find.find_boards() == found.boards
    assert find.find_board("ADD").folder == problems / "add"
    assert find.find_board("Plus-Long-Name").name == "add"
    assert find.find_board("gg").gpus == ("B200",)
    with pytest.raises(RequestError, match="'model' is unknown"):
        find.find_board("bad")
    # The local folder comes first, also when its board does not load.
    (local / "add").mkdir()
    (local / "add" / "task.yml").write_text("lang: py\n")
    with pytest.raises(RequestError, match="the key is missing"):
        find.find_board("add")
    assert [board.name for board in find.find_boards()] == ["gg"]


def test_a_problem_folder_may_be_named_in_the_variable(empty_shop: Path, make_board, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_LEADERBOARDS", str(make_board("add")))
    assert [board.name for board in find.find_boards()] == ["add"]


def test_paths_and_wrong_names(empty_shop: Path, make_board, monkeypatch) -> None:
    folder = make_board("softmax")
    assert find.find_board(str(folder)).name == "softmax"
    assert find.find_board(f"{folder}/").name == "softmax"
    monkeypatch.chdir(folder.parent)
    assert find.find_board("softmax").folder == folder
    monkeypatch.chdir(folder)
    assert find.find_board(".").name == "softmax"
    monkeypatch.setenv("HARNESS_LEADERBOARDS", str(folder.parent))
    with pytest.raises(RequestError) as caught:
        find.find_board("sofmax")
    assert str(caught.value) == "there is no board 'sofmax' (allowed: softmax)\nDid you mean 'softmax'?"
    with pytest.raises(RequestError, match="there is no such folder"):
        find.find_board("./sofmax")


def test_submissions_of_a_board(make_board) -> None:
    board = find.load_board(make_board("add"))
    assert find.shipped_submissions(board) == Path(find.__file__).parents[2] / "submissions" / "add"


def test_finding_boards_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from harness.boards.find import find_boards; find_boards(); "
        "print([m for m in ('torch', 'numpy', 'sqlalchemy', 'rich') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

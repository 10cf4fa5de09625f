from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from problem_folders import REFERENCE

from harness.boards import find
from harness.boards.directives import parse_directives
from harness.boards.loader import load_board
from harness.cli.boards import format_deadline, paragraphs
from harness.cli.init import choose_template, with_header
from harness.cli.main import main
from harness.errors import RequestError


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command in an empty folder, with an empty store and nothing shipped."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    monkeypatch.setenv("HARNESS_LEADERBOARDS", str(tmp_path / "problems"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(find, "_PACKAGE", tmp_path / "nowhere" / "harness")

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(int(stopped.value.code or 0), captured.out, captured.err)

    return call


GRIDS = {"grids": {"cpu": {"tests": [{"n": 4, "seed": 1}], "benchmarks": [{"n": 6, "seed": 3}]}}}


def test_boards_lists_what_loads_and_says_what_does_not(run: Run, make_board) -> None:
    make_board("add", harness=GRIDS, gpus=["B200", "H100"])
    make_board("bad", lang="model")
    status, out, err = run("boards")
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["board", "full", "cpu", "gpus", "your", "best"]
    assert lines[2] == ["add", "2", "+", "1", "1", "+", "1", "B200,", "H100", "–"]
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "'model' is unknown" in " ".join(err.split())


def test_boards_with_no_boards(run: Run) -> None:
    status, out, _ = run("boards")
    assert status == 0
    assert "No boards." in out
    assert json.loads(run("boards", "--json").out) == {"boards": [], "broken": []}


def test_boards_json(run: Run, make_board) -> None:
    folder = make_board("add", harness={**GRIDS, "aliases": ["plus"]})
    make_board("bad", lang="model")
    (folder.parent / "set.yaml").write_text(
        "problems:\n  - {directory: add, name: plain-add, deadline: '2999-01-02 03:04', gpus: [L4]}\n"
    )
    document = json.loads(run("boards", "--json").out)
    (board,) = document["boards"]
    assert board == {
        "name": "plain-add",
        "folder": str(folder),
        "aliases": ["plus"],
        "language": "py",
        "multi_gpu": False,
        "ranking_by": "geom",
        "gpus": ["L4"],
        "deadline": "2999-01-02T03:04:00+00:00",
        "grids": {"full": {"tests": 2, "benchmarks": 1}, "cpu": {"tests": 1, "benchmarks": 1}},
        "best_us": None,
    }
    assert [entry["name"] for entry in document["broken"]] == ["bad"]
    assert "2999-01-02 03:04" in run("boards").out


def test_boards_shows_a_folder(run: Run, make_board) -> None:
    folder = make_board("add", harness=GRIDS)
    status, out, _ = run("boards", folder)
    assert status == 0
    for text in ("Add two square matrices.", "submission.py (yours), task.py, utils.py", "  1  n: 5; seed: 2",
                 "benchmarks, cpu grid", "templates       Python"):  # fmt: skip
        assert text in out
    document = json.loads(run("boards", "ADD", "--json").out)
    assert document["cases"]["cpu"] == {"tests": [{"n": 4, "seed": 1}], "benchmarks": [{"n": 6, "seed": 3}]}
    assert document["files"][0] == {"name": "submission.py", "source": None}
    status, _, err = run("boards", "ad")
    assert (status, err.splitlines()[-1]) == (2, "Did you mean 'add'?")


@pytest.mark.parametrize(
    ("deadline", "text"),
    [
        (None, "–"),
        (datetime(2030, 1, 2, 23, 59, 59, tzinfo=UTC), "2030-01-02"),
        (datetime(2030, 1, 2, 6, 59, tzinfo=UTC), "2030-01-02 06:59"),
        (datetime(2020, 1, 2, 23, 59, 59, tzinfo=UTC), "closed 2020-01-02"),
    ],
)
def test_deadlines_on_a_screen(deadline: datetime | None, text: str) -> None:
    assert format_deadline(deadline, datetime(2025, 1, 1, tzinfo=UTC)) == text


def test_init_writes_a_file_and_keeps_what_is_there(run: Run, make_board) -> None:
    make_board("add", gpus=["H100", "L4"])
    status, out, _ = run("init", "ADD")
    assert status == 0
    assert "wrote add.py (Python template)" in out
    text = Path("add.py").read_text()
    assert text.startswith("#!POPCORN leaderboard add\n#!POPCORN gpu H100\n\nfrom task import")
    assert parse_directives(text, "add.py").warnings == ()
    Path("add.py").write_text("mine")
    status, _, err = run("init", "add")
    assert status == 2
    assert "the file is there already" in err
    assert Path("add.py").read_text() == "mine"
    assert run("init", "add", "--force", "--gpu", "B200").status == 0
    assert "#!POPCORN gpu B200\n" in Path("add.py").read_text()
    document = json.loads(run("init", "add", "-o", "other.py", "--json").out)
    assert document == {"file": "other.py", "leaderboard": "add", "gpus": ["H100"], "template": "Python"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dsl", "trition"), "has no template for 'trition' (allowed: torch)"),
        (("-o", "add.cu"), "wrong extension for this board: '.cu' (allowed: .py)"),
        (("-o", "none/add.py"), "can't be written"),
    ],
)
def test_init_refuses(run: Run, make_board, arguments: tuple[str, ...], message: str) -> None:
    make_board("add")
    status, _, err = run("init", "add", *arguments)
    assert status == 2
    assert message in err
    assert list(Path().iterdir()) == []


def test_init_of_a_board_without_templates(run: Run, make_board) -> None:
    make_board("add", drop=("templates",))
    assert run("init", "add").status == 0
    text = Path("add.py").read_text()
    assert text.startswith("#!POPCORN leaderboard add\n\nfrom task import input_t, output_t\n")
    compile(text, "add.py", "exec")


def test_templates_and_headers(make_board) -> None:
    text = (
        "#!/usr/bin/env python\n#!POPCORN leaderboard other\n#!POPCORN gpus T4 L4\n\n# mine\n#!POPCORN gpu L4\nx = 1\n"
    )
    folder = make_board(
        "add", templates={"Triton": "t.py", "CuteDSL": "t.py"}, files_text={"t.py": text}, gpus=["B200"]
    )
    board = load_board(folder)
    assert [choose_template(board, dsl) for dsl in (None, "triton", "Triton", "cute", "CuteDSL")] == [
        "Triton", "Triton", "Triton", "CuteDSL", "CuteDSL"]  # fmt: skip
    with pytest.raises(RequestError, match="allowed: triton, cutedsl"):
        choose_template(board, "torch")
    header = "#!/usr/bin/env python\n#!POPCORN leaderboard add\n#!POPCORN gpu T4\n"
    assert with_header(text, board, None) == header + "# mine\nx = 1\n"
    assert with_header("x = 1\n", board, None) == "#!POPCORN leaderboard add\n#!POPCORN gpu B200\n\nx = 1\n"


def test_init_of_a_cuda_board(run: Run, make_board) -> None:
    make_board(
        "id",
        lang="cu",
        files=[{"name": "eval.cu", "source": "eval.cu"}, {"name": "submission.cuh", "source": "@SUBMISSION@"}],
        config={"sources": ["eval.cu"]},
        templates={"CUDA": "template.cuh"},
        files_text={"eval.cu": "", "template.cuh": "//!POPCORN leaderboard x\n#include <x>\n"},
    )
    assert run("init", "id", "--dsl", "cuda").status == 0
    assert Path("id.cuh").read_text() == "//!POPCORN leaderboard id\n#include <x>\n"


def lint_document(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.out)
    return document


def test_lint_of_a_sound_and_an_unsound_board(run: Run, make_board) -> None:
    make_board("add", harness=GRIDS)
    status, out, err = run("lint", "add")
    assert status == 0
    assert out.startswith("add: sound (cpu grid, 2 cases, 12 wrong answers refused)\n")
    assert err == "lint: add, 2 cases\n"
    never = REFERENCE.replace("return close(output, ref_kernel(data))", "return True, ''")
    make_board("easy", reference=never, harness=GRIDS)
    status, out, _ = run("lint")
    assert status == 1
    assert "easy: not sound" in out
    assert "error wrong_answer_passes, test 0 (n: 4; seed: 1) and 1 more case\n  a wrong answer passes: zeros" in out
    result = run("lint", "easy", "--json")
    assert result.status == 1
    (board,) = lint_document(result)["boards"]
    assert (board["board"], board["grid"], board["sound"]) == ("easy", "cpu", False)
    first = next(f for f in board["findings"] if f["severity"] == "error")
    assert first["code"] == "wrong_answer_passes"
    assert first["case"] == "test 0 (n: 4; seed: 1)"


def test_lint_exit_statuses_for_boards_that_cannot_be_judged(run: Run, make_board) -> None:
    make_board("needs", reference="import module_of_nobody\n", harness=GRIDS)
    result = run("lint", "needs", "--json")
    assert (result.status, lint_document(result)["boards"][0]["findings"][0]["code"]) == (3, "machine")
    make_board("bad", lang="model")
    status, out, _ = run("lint")
    assert status == 2
    assert "bad: does not load" in out
    assert run("lint", "bad").status == 2
    assert run("lint", "nothing").status == 2


def test_boards_and_init_import_no_torch(make_board, tmp_path: Path) -> None:
    folder = make_board("add")
    code = (
        "import sys; from harness.cli.main import cli; from harness.cli.boards import boards_command; "
        "from harness.cli.init import init_command; "
        f"boards_command.main([], standalone_mode=False); init_command.main([{str(folder)!r}], standalone_mode=False); "
        "print([m for m in ('torch', 'numpy', 'sqlalchemy') if m in sys.modules])"
    )
    environment = {
        "PATH": "",
        "HARNESS_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(Path(find.__file__).parents[2]),
    }
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_folder_that_no_search_finds_is_named_by_its_path(
    run: Run, make_board, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_board("vecsum", drop=("templates",))
    monkeypatch.setenv("HARNESS_LEADERBOARDS", "")
    out = run("init", folder).out
    assert f"`harness run vecsum.py --leaderboard {folder}` checks it\n" in out
    assert f"`harness submit vecsum.py --leaderboard {folder}` measures and records it\n" in out
    assert f"`harness boards {folder}`" in Path("vecsum.py").read_text()
    assert f"\nharness submit FILE --leaderboard {folder}\n" in run("leaderboard", folder).out
    assert f"`harness init {folder}` writes a file" in " ".join(run("boards", folder).out.split())


def test_a_folder_that_the_search_finds_is_named_by_its_name(run: Run, make_board) -> None:
    folder = make_board("vecsum")
    assert "`harness run vecsum.py` checks it\n" in run("init", folder).out
    assert "\nharness submit FILE --leaderboard vecsum\n" in run("leaderboard", folder).out
    assert "`harness init vecsum` writes a file" in run("boards", folder).out


def test_a_board_of_the_same_name_elsewhere_is_another_one(run: Run, make_board, tmp_path: Path) -> None:
    make_board("vecsum")
    other = tmp_path / "pub" / "vecsum"
    shutil.copytree(tmp_path / "problems", other.parent)
    assert f"--leaderboard {other}`" in run("init", other).out


def test_init_says_how_to_get_the_language_of_a_template(run: Run, make_board, monkeypatch: pytest.MonkeyPatch) -> None:
    make_board("add", templates={"Triton": "template.py", "Python": "template.py"})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, out, err = run("init", "add", "--dsl", "triton")
    assert (status, out.splitlines()[0]) == (0, "wrote add.py (Triton template)")
    assert err.startswith(f"note: triton is not installed here: {sys.executable} -m pip install ")
    assert run("init", "add", "--dsl", "torch", "--force").err == ""


def test_paragraphs_are_joined_and_what_is_laid_out_is_kept() -> None:
    text = "One line,\nand its rest.\n\n    x = 1\n    y = 2\n- first,\ngoing on\n- second\n\n"
    text += "```\na\nb\n```\nEnd\nof it.\n"
    assert paragraphs(text) == [
        "One line, and its rest.",
        "",
        "    x = 1",
        "    y = 2",
        "- first, going on",
        "- second",
        "",
        "```",
        "a",
        "b",
        "```",
        "End of it.",
    ]
    assert paragraphs("\n") == []


def test_a_description_fills_the_width_there_is(run: Run, make_board, monkeypatch: pytest.MonkeyPatch) -> None:
    words = " ".join(["word"] * 40)
    folder = make_board("add", description=words[:99] + "\n" + words[99:].lstrip() + "\n")
    monkeypatch.setenv("COLUMNS", "60")
    shown = [line for line in run("boards", folder).out.splitlines() if line.startswith("word")]
    assert [len(line) for line in shown] == [59, 59, 59, 19]


def test_boards_are_listed_when_the_store_is_not_readable(run: Run, make_board, tmp_path: Path) -> None:
    folder = make_board("add")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "harness.sqlite3").write_bytes(b"not a database at all " * 100)
    status, out, err = run("boards")
    assert status == 0
    assert out.splitlines()[2].split()[0] == "add"
    assert "store not readable" in out
    assert "the store is not a SQLite database" in " ".join(err.split())
    assert "your best       store not readable" in run("boards", folder).out
    document = json.loads(run("boards", "--json").out)
    assert [board["best_us"] for board in document["boards"]] == [None]


def test_work_is_told_by_name(run: Run, make_board) -> None:
    folder = make_board("add", harness={"speed_of_light": {"flops": "n**2", "bytes": "12*n**2"}})
    assert "speed of light  flops = n**2 (fp32); bytes = 12*n**2\n" in run("boards", folder).out


def test_a_folder_of_the_search_that_is_not_there_is_told(
    run: Run, make_board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_board("add")
    monkeypatch.setenv("HARNESS_LEADERBOARDS", os.pathsep.join([str(tmp_path / "gone"), str(tmp_path / "problems")]))
    status, out, err = run("boards")
    assert status == 0
    assert "add" in out
    assert err == f"warning: HARNESS_LEADERBOARDS names {tmp_path / 'gone'}, which does not exist\n"

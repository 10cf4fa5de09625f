from __future__ import annotations

import re
from pathlib import Path

from harness.boards import expressions, harness_yml
from harness.boards.lint import Code, lint_board
from harness.boards.loader import load_board

TEXT = (Path(__file__).parents[2] / "docs" / "boards.md").read_text()


def test_every_finding_is_explained_once() -> None:
    for code in Code:
        assert TEXT.count(f"\n| `{code.value}` |") == 1, code


def test_every_key_and_function_is_named() -> None:
    for key in harness_yml.KEYS:
        assert f"| `{key}" in TEXT, key
    for name in expressions._FUNCTIONS:
        assert name in TEXT, name


def test_the_board_in_the_docs_is_sound_as_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "leaderboards" / "scale2"
    folder.mkdir(parents=True)
    for name in ("task.yml", "task.py", "reference.py"):
        (block,) = re.findall(rf"`{re.escape(name)}`:\n\n```\w+\n(.*?)```", TEXT, re.DOTALL)
        (folder / name).write_text(block)
    report = lint_board(load_board(folder), full=True, tell=lambda text, done, total: None)
    assert [finding.code for finding in report.findings] == [Code.NO_CPU_GRID]
    assert len(report.cases) == 3
    assert report.sound

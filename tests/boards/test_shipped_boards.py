"""Every board that comes with the package is sound, on CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.find import shipped_leaderboards
from harness.boards.lint import Severity, lint_board
from harness.boards.loader import load_board

FOLDERS = sorted(path.parent for path in shipped_leaderboards().glob("*/task.yml"))


def test_there_are_boards() -> None:
    assert {"cholesky", "vectoradd"} <= {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_shipped_board_is_sound(folder: Path) -> None:
    report = lint_board(load_board(folder))
    assert [finding for finding in report.findings if finding.severity is not Severity.NOTE] == []
    assert report.cases

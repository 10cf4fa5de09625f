"""Counts and their nouns."""

from __future__ import annotations

import io

from rich.console import Console

from harness.boards.board import GridName
from harness.boards.lint import CaseReport, LintReport
from harness.cli import lint
from harness.wording import counted, noun_for


def test_a_noun_agrees_with_its_count() -> None:
    assert [counted(n, "case") for n in (0, 1, 2, 1200)] == ["0 cases", "1 case", "2 cases", "1,200 cases"]
    assert [counted(n, "launch", "launches") for n in (1, 2)] == ["1 launch", "2 launches"]
    assert noun_for(1, "has", "have") == "has"


def test_lint_of_one_case() -> None:
    text = io.StringIO()
    lint._write(Console(file=text, width=100), LintReport("add", GridName.CPU, (CaseReport("n: 1", "", 1),)))
    assert text.getvalue().startswith("add: sound (cpu grid, 1 case, 1 wrong answer refused)\n")

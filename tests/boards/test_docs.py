from __future__ import annotations

from pathlib import Path

from harness.boards import expressions, harness_yml
from harness.boards.lint import Code

TEXT = (Path(__file__).parents[2] / "docs" / "boards.md").read_text()


def test_every_finding_is_explained_once() -> None:
    for code in Code:
        assert TEXT.count(f"\n| `{code.value}` |") == 1, code


def test_every_key_and_function_is_named() -> None:
    for key in harness_yml.KEYS:
        assert f"| `{key}" in TEXT, key
    for name in expressions._FUNCTIONS:
        assert name in TEXT, name

"""Problem folders in the public format, written in a few lines of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from problem_folders import REFERENCE, TASK, TASK_YML, TEMPLATE, UTILS

MakeBoard = Callable[..., Path]


@pytest.fixture
def make_board(tmp_path: Path) -> MakeBoard:
    """`make_board("add", reference=…, harness={…}, drop=[…], tests=[…])` writes a folder and returns it.

    Keywords other than these replace keys of `task.yml`; `files_text` adds files to the folder.
    """

    def make(
        name: str = "add",
        *,
        reference: str = REFERENCE,
        harness: dict[str, Any] | None = None,
        drop: tuple[str, ...] = (),
        files_text: dict[str, str] | None = None,
        **task: Any,
    ) -> Path:
        folder = tmp_path / "problems" / name
        folder.mkdir(parents=True)
        content = {key: value for key, value in {**TASK_YML, **task}.items() if key not in drop}
        (folder / "task.yml").write_text(yaml.safe_dump(content, sort_keys=False))
        (folder / "task.py").write_text(TASK)
        (folder / "reference.py").write_text(reference)
        (folder / "template.py").write_text(TEMPLATE)
        (folder.parent / "utils.py").write_text(UTILS)
        (folder.parent / "eval.py").write_text("raise SystemExit('not run here')\n")
        if harness is not None:
            (folder / "harness.yml").write_text(yaml.safe_dump(harness))
        for file_name, text in (files_text or {}).items():
            (folder / file_name).write_text(text)
        return folder

    return make

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HARNESS_HOME, for user ada, on a pipe of 80 columns."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARNESS_USER", "ada")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    return tmp_path

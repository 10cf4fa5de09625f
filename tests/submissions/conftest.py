from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from emulated import ROOT, load_with_task


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The cholesky board's."""
    return load_with_task("cholesky", ROOT / "leaderboards" / "cholesky" / "reference.py")


@pytest.fixture
def nan_where_allocated(monkeypatch) -> None:
    """What a submission allocates on the host, and what nobody has written of it, is NaN."""
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *shape: self.new_full(shape, torch.nan))
    monkeypatch.setattr(torch, "empty_like", lambda x: torch.full_like(x, torch.nan))


@pytest.fixture(autouse=True)
def _store_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled is compiled, not known from before."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))

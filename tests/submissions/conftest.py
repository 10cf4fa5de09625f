from __future__ import annotations

from types import ModuleType

import pytest
from emulated import ROOT, load_with_task


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The cholesky board's."""
    return load_with_task("cholesky", ROOT / "leaderboards" / "cholesky" / "reference.py")

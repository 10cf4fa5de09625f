from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_launch import Launcher, make_launcher

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="harness-sandbox-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(params=["self", "nobody"])
def launch(request: pytest.FixtureRequest, folder: Path) -> Launcher:
    """As whoever runs the tests (root, often), and as a user without rights."""
    return make_launcher(request.param, folder)

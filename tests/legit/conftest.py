"""The warm fork server that tests/exploits uses too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "exploits"))

from trial import trial

__all__ = ["trial"]

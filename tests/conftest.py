"""What all tests share."""

from __future__ import annotations

import os

# Two test processes on two cores: more threads than that wait for one another more than they work. Set before torch is
# imported anywhere; commands that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

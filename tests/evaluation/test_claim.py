"""Two evaluations never share a device."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import pytest

from harness.evaluation.claim import claim_one_of

HOLD = """
import sys, time
from harness.evaluation.claim import claim_one_of
claim_one_of(sys.argv[1:], print)
print("held", flush=True)
time.sleep(60)
"""


def hold(*names: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, *names], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_held_device_is_waited_for_and_freed_by_its_holders_death() -> None:
    name = f"test-{uuid.uuid4()}"
    holder = hold(name)
    told: list[str] = []
    killer = threading.Timer(0.5, holder.kill)
    killer.start()
    started = time.monotonic()
    claim = claim_one_of([name], told.append)
    assert claim is not None
    assert 0.3 < time.monotonic() - started < 10
    assert told == [f"waiting for the device: another evaluation runs on it (process {holder.pid})"]
    claim.release()
    holder.wait()


def test_several_devices_are_spread_over() -> None:
    names = [f"test-{uuid.uuid4()}" for _ in range(2)]
    holder = hold(*names)
    claim = claim_one_of(names, lambda text: None)
    assert claim is not None
    assert claim.device == names[1]
    claim.release()
    holder.kill()
    holder.wait()


def test_a_lock_that_another_user_made_is_opened_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    # As Linux does in a sticky folder (fs.protected_regular): O_CREAT on a file that is another user's is refused.
    name = f"test-{uuid.uuid4()}"
    first = claim_one_of([name], lambda text: None)
    assert first is not None
    first.release()
    really = os.open

    def protected(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_CREAT and str(path).endswith(".lock"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, flags, *rest)

    monkeypatch.setattr(os, "open", protected)
    again = claim_one_of([name], lambda text: None)
    assert again is not None
    again.release()


def test_no_device_needs_no_claim() -> None:
    assert claim_one_of([], lambda text: None) is None

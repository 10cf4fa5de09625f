"""kill -9 of the supervisor in mid-run: nothing finished is lost, nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from .conftest import Command

SLOW = """
import time
def custom_kernel(data):
    if data[0].numel() == 1000:
        time.sleep(60)
    return data[0] + data[1]
"""


def test_a_killed_run_is_shown_as_interrupted_with_its_finished_cases(
    command: Command, write: Callable[..., Path]
) -> None:
    process = command.start("submit", write(SLOW), "--mode", "test")
    assert process.stderr is not None
    for line in process.stderr:
        if "test 1 (size: 128" in line:
            break
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    shown = command("show", "1", "--json")
    assert shown.status == 0, shown.err
    evaluation = shown.document["evaluations"][0]
    assert evaluation["status"] == "interrupted"
    assert [case["status"] for case in evaluation["cases"]] == ["passed", "passed"]
    deadline = time.monotonic() + 10
    while any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers):
        assert time.monotonic() < deadline, workers
        time.sleep(0.05)


def test_the_users_interrupt_is_recorded(command: Command, write: Callable[..., Path]) -> None:
    process = command.start("submit", write(SLOW), "--mode", "test")
    assert process.stderr is not None
    for line in process.stderr:
        if "test 1 (size: 128" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    evaluation = command("show", "1", "--json").document["evaluations"][0]
    assert evaluation["status"] == "interrupted"
    assert len(evaluation["cases"]) == 2

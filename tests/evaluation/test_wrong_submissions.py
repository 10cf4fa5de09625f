"""Wrong submissions end with the right status, a message that names the case, and exit status 1; all that was
measured is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Command

Write = Callable[..., Path]

CASES = {
    "zeros": ("def custom_kernel(data):\n    return data[0] * 0\n", "failed", "wrong_answer"),
    "wrong dtype": ("def custom_kernel(data):\n    return (data[0] + data[1]).double()\n", "failed", "wrong_answer"),
    "wrong shape": ("def custom_kernel(data):\n    return (data[0] + data[1])[:-1]\n", "failed", "wrong_answer"),
    "nan": ("def custom_kernel(data):\n    return data[0] + data[1] * float('nan')\n", "failed", "contract"),
    "no tensor": ("def custom_kernel(data):\n    return None\n", "failed", "contract"),
    "the input itself": ("def custom_kernel(data):\n    return data[0].add_(data[1])\n", "failed", "contract"),
    "input changed": (
        "def custom_kernel(data):\n    out = data[0] + data[1]\n    data[0].zero_()\n    return out\n",
        "failed",
        "input_changed",
    ),
    "no entry": ("def kernels(data):\n    return data[0] + data[1]\n", "failed", "no_entry"),
    "an entry of other arguments": ("def kernel(data):\n    return data[0] + data[1]\n", "failed", "no_entry"),
    "name error at import": ("import os\nos.nothing\n", "failed", "import_failed"),
    "exit at import": ("import os\nos._exit(0)\n", "error", "crash"),
    "segmentation fault": (
        "import ctypes\ndef custom_kernel(data):\n    ctypes.string_at(8)\n",
        "error",
        "crash",
    ),
    "output without end": (
        "import os\ndef custom_kernel(data):\n    for _ in range(300):\n        os.write(1, b'\\xff' * (1 << 20))\n"
        "    return data[0] + data[1]\n",
        "error",
        "output_limit",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_submission(name: str, command: Command, write: Write) -> None:
    body, status, reason = CASES[name]
    answer = command("submit", write(body), "--mode", "test", "--json")
    assert answer.status == 1, answer.err
    assert answer.evaluation["status"] == status, answer.evaluation["reason"]
    assert answer.evaluation["reason"]["code"] == reason
    assert "test case 0 (size: 127; seed: 4242)" in answer.evaluation["reason"]["message"]
    kept = command("show", "1", "--json").document
    assert kept, "the store keeps the run"


def test_an_exception_on_one_case_leaves_the_others(command: Command, write: Write) -> None:
    body = """
    def custom_kernel(data):
        if data[0].numel() == 128:
            return helper_that_is_missing(data)
        return data[0] + data[1]
    """
    answer = command("submit", write(body), "--mode", "test", "--json")
    statuses = [case["status"] for case in answer.evaluation["cases"]]
    assert statuses == ["passed", "failed", "passed"]
    failed = answer.evaluation["cases"][1]
    assert "helper_that_is_missing" in failed["message"]
    assert "kernel.py" in failed["traceback"] or "submission.py" in failed["traceback"]
    assert "harness/worker" not in failed["traceback"]


def test_a_hang_on_one_case_leaves_the_others(command: Command, write: Write) -> None:
    body = """
    def custom_kernel(data):
        while data[0].numel() == 128:
            pass
        return data[0] + data[1]
    """
    answer = command("submit", write(body), "--mode", "test", "--timeout", "1.5", "--json")
    assert [case["status"] for case in answer.evaluation["cases"]] == ["passed", "timeout", "passed"]
    assert answer.status == 1


def test_a_crash_on_one_case_leaves_the_others(command: Command, write: Write) -> None:
    body = """
    import os, signal
    def custom_kernel(data):
        if data[0].numel() == 128:
            os.kill(os.getpid(), signal.SIGKILL)
        return data[0] + data[1]
    """
    answer = command("submit", write(body), "--mode", "test", "--json")
    assert [case["status"] for case in answer.evaluation["cases"]] == ["passed", "error", "passed"]


def test_samples_measured_before_a_failure_are_kept(command: Command, write: Write) -> None:
    body = """
    calls = 0
    def custom_kernel(data):
        global calls
        calls += data[0].numel() > 10_000
        return data[0] + data[1] if calls < 8 else data[0]
    """
    answer = command("submit", write(body), "--case", "0", "--mode", "benchmark", "--json")
    assert answer.evaluation["status"] == "failed"
    # One first call, two warm-ups, and the eighth is the first that is wrong.
    assert answer.evaluation["cases"][0]["samples"] == 4

"""`harness compare` as a user runs it, on real workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.store import Store

FAST = """#!POPCORN leaderboard vectoradd
def custom_kernel(data):
    return data[0] + data[1]
"""
SLOW = """#!POPCORN leaderboard vectoradd
import torch
def custom_kernel(data):
    for _ in range(40):
        out = data[0] + data[1]
    return out
"""
WRONG = FAST.replace("+", "-")
CPU_ONLY = pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a CUDA device")


def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )


def write(home: Path, **sources: str) -> dict[str, str]:
    files = {}
    for name, source in sources.items():
        (home / f"{name}.py").write_text(source)
        files[name] = str(home / f"{name}.py")
    return files


@pytest.mark.slow
def test_a_file_against_a_submission(home: Path) -> None:
    """Readings are real: forty additions take many times one. A sure verdict is asked of no machine that may be busy,
    but where there is one it must be the right one."""
    files = write(home, slow=SLOW)
    with Store.open() as store:
        store.add_submission("vectoradd", "ada", "fast.py", FAST)
    done = harness("compare", "1", files["slow"], "--case", "1", "--grid", "cpu", "--budget", "0", "--json")
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    assert (document["leaderboard"], document["a"]["id"], document["b"]["id"]) == ("vectoradd", 1, None)
    (case,) = document["cases"]
    assert (case["index"], case["status"], case["units"]) == (1, "passed", 8)
    assert len(case["null_readings_ns"]) == len(case["readings_ns"]) == 8
    assert all(len(unit) == 4 and min(unit) > 0 for unit in case["readings_ns"])
    ratios = sorted((b1 + b2) / (a1 + a2) for a1, b1, b2, a2 in case["readings_ns"])
    assert ratios[4] > 3
    assert case["verdict"] in ("slower", "unsure", None)
    assert (case["ratio"] is None) == (case["verdict"] is None)
    assert document["verdict"] == case["verdict"]
    assert (done.returncode == 3) == (case["verdict"] is None)
    assert "case 1 (size: 1048576)" in done.stderr


@pytest.mark.slow
def test_a_wrong_side_is_named_and_the_other_cases_run(home: Path) -> None:
    files = write(home, fast=FAST, wrong=WRONG)
    done = harness("compare", files["fast"], files["wrong"], "--grid", "cpu", "--budget", "0")
    assert done.returncode == 1
    assert len(re.findall(r"case \d, B: failed", done.stdout)) == 2
    assert "wrong_answer" in done.stdout
    assert "No verdict on the score: not every case ran on both sides." in done.stdout
    assert "Traceback" not in done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.slow
def test_a_file_that_does_not_load_is_told_once(home: Path) -> None:
    files = write(home, fast=FAST, none="#!POPCORN leaderboard vectoradd\n")
    done = harness("compare", files["fast"], files["none"], "--grid", "cpu", "--budget", "0")
    assert done.returncode == 1
    assert "case 0–1, B: failed\n  the file defines no function custom_kernel(data) (no_entry)\n" in done.stdout
    assert "AssertionError" not in done.stdout + done.stderr
    assert done.stdout.count("B failed") == 2


@pytest.mark.slow
def test_a_traceback_names_the_users_file_and_is_not_wrapped(home: Path) -> None:
    long = FAST.replace("return ", f"raise ValueError('{'word ' * 30}')  # ")
    files = write(home, fast=FAST, raising=long)
    done = harness("compare", files["fast"], files["raising"], "--grid", "cpu", "--budget", "0", "--case", "0")
    assert done.returncode == 1
    assert 'File "raising.py", line 3, in custom_kernel' in done.stdout
    assert "/code/" not in done.stdout
    assert f"ValueError: {'word ' * 30}".rstrip() in done.stdout
    assert "99 % interval" not in done.stdout  # nothing was measured


@pytest.mark.slow
def test_slow_first_calls_are_made_in_fewer_processes(home: Path) -> None:
    files = write(home, fast=FAST, slow=SLOW)
    impatient = "from harness.comparing import case_run\ncase_run.MOST_FIRST_CALLS_S = 0.0\n"
    code = f"{impatient}from harness.cli.main import main\nmain()"
    arguments = ("--grid", "cpu", "--case", "0", "--budget", "0", "--processes", "4", "--json")
    command = [sys.executable, "-c", code, "compare", files["fast"], files["slow"], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["processes"], [case["processes"] for case in document["cases"]]) == (4, [2])


@pytest.mark.slow
def test_several_processes_of_each_version(home: Path) -> None:
    """Two of each, as on a GPU eight; a case for which the memory does not suffice is done by one of each."""
    greedy = FAST.replace("    return", "    if data[0].numel() > 100_000:\n        raise MemoryError\n    return")
    files = write(home, fast=FAST, greedy=greedy)
    arguments = ("--grid", "cpu", "--budget", "0", "--processes", "2", "--json")
    done = harness("compare", files["fast"], files["greedy"], *arguments)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    small, large = document["cases"]
    assert (document["processes"], small["processes"], large["processes"]) == (2, 2, 1)
    assert (small["status"], small["units"], len(small["null_readings_ns"])) == ("passed", 8, 8)
    assert (large["failed"], large["reason"]["code"]) == ("B", "out_of_memory")
    logs = sorted(log.name.split("-")[1] for log in Path(document["log"]).glob("*/*.log"))
    assert logs.count("a.log") == 2
    assert logs.count("b.log") >= 2


def test_boards_are_not_mixed(home: Path) -> None:
    files = write(home, a=FAST, b=FAST.replace("vectoradd", "softmax"), none="def custom_kernel(data): pass\n")
    mixed = harness("compare", files["a"], files["b"])
    assert mixed.returncode == 2
    assert "times of different boards are not compared: a.py is for vectoradd, b.py is for softmax" in mixed.stderr
    contrary = harness("compare", files["a"], files["none"], "--leaderboard", "softmax")
    assert contrary.returncode == 2
    assert "--leaderboard is for softmax" in contrary.stderr
    nameless = harness("compare", files["none"], files["none"])
    assert nameless.returncode == 2
    assert "neither file names a board" in nameless.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99", "FILE"], "there is no submission 99"),
        (["FILE", "nothing.py"], "nothing.py: there is no such file"),
        (["FILE", "FILE", "--case", "7", "--grid", "cpu"], "there is no case 7"),
    ],
)
def test_what_can_not_be_compared(home: Path, arguments: list[str], message: str) -> None:
    files = write(home, fast=FAST)
    done = harness("compare", *[files["fast"] if word == "FILE" else word for word in arguments])
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{FAST}    return (data[0]\n", "{file}:4: '(' was never closed: `return (data[0]`\nNot valid Python.\n"),
        ("", "{file}: the file is empty\n"),
        (FAST.replace("leaderboard", "leadboard"), "{file}:1: unknown directive `leadboard`"),
        (FAST.replace("vectoradd", "vectoadd"), "there is no board 'vectoadd'"),
    ],
    ids=["syntax", "empty", "header", "board"],
)
def test_what_no_run_would_take_starts_none(home: Path, text: str, message: str) -> None:
    """Refused as submit refuses it, on either side."""
    files = write(home, fast=FAST, bad=text)
    submitted = harness("submit", files["bad"])
    assert submitted.returncode == 2
    for sides in (("fast", "bad"), ("bad", "fast")):
        done = harness("compare", *(files[side] for side in sides), "--grid", "cpu", "--case", "0")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"harness: {message.format(file=files['bad'])}")
    if text:
        folder = f"{Path(files['bad']).parent}/"
        assert done.stderr.replace(folder, "") == submitted.stderr.replace(folder, "")


def test_a_submission_that_does_not_parse_is_named(home: Path) -> None:
    files = write(home, fast=FAST)
    with Store.open() as store:
        store.add_submission("vectoradd", "ada", "old.py", FAST.replace(":", ""))
    for command in (("compare", "1", files["fast"]), ("diff", "1", files["fast"], "--measure")):
        done = harness(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("harness: submission 1, old.py:2: expected ':'")


@pytest.mark.slow
def test_a_byte_order_mark_is_no_part_of_the_text(home: Path) -> None:
    files = write(home, fast=FAST, marked=f"\ufeff{FAST}")
    done = harness("compare", files["marked"], files["marked"], "--grid", "cpu", "--budget", "0", "--case", "0")
    assert done.returncode in (0, 3), done.stderr
    assert "B failed" not in done.stdout


@CPU_ONLY
def test_interpreted_kernels_are_not_compared(home: Path) -> None:
    files = write(home, fast=FAST, triton=f"{FAST}import triton\n")
    done = harness("compare", files["fast"], files["triton"])
    assert done.returncode == 3
    assert "interpreter" in done.stderr

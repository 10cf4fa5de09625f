"""The lookup screens on two real submissions, as a user makes them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FIRST = """#!POPCORN leaderboard vectoradd
import torch


def custom_kernel(data):
    a, b = data[0], data[1]
    return torch.stack([a, b]).sum(0).to(a.dtype)
"""
SECOND = FIRST.replace("torch.stack([a, b]).sum(0).to(a.dtype)", "torch.add(a, b)")


def harness(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HARNESS_RANK_UNISOLATED": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_submissions_are_ranked_listed_shown_and_compared(home: Path) -> None:
    documents: list[dict[str, Any]] = []
    for name, source in (("first.py", FIRST), ("second.py", SECOND)):
        (home / name).write_text(source)
        documents.append(json.loads(harness("submit", str(home / name), "--json")))
    second = documents[1]
    assert [document["submission"]["id"] for document in documents] == [1, 2]
    assert second["submission"]["previous"] == 1
    for number, document in enumerate(documents, start=1):
        shown = json.loads(harness("show", str(number), "--json"))
        assert shown["evaluation"] == document["evaluation"]
        assert shown["submission"] == document["submission"]
    assert second["evaluation"]["status"] == "passed"
    rankings = json.loads(harness("leaderboard", "vectoradd", "--json"))["rankings"]
    # Other tests share the two cores: a score that was too noisy does not rank.
    ranked = [each["evaluation"]["score_us"] for each in documents if each["evaluation"]["rank"] is not None]
    stand = [entry["score_us"] for ranking in rankings for entry in ranking["entries"]]
    assert stand == ([min(ranked)] if ranked else [])
    history = json.loads(harness("history", "--json"))["submissions"]
    assert [row["score_us"] for row in history] == [d["evaluation"]["score_us"] for d in reversed(documents)]
    diff = json.loads(harness("diff", "--json"))
    assert "+    return torch.add(a, b)" in diff["code"]
    assert diff["refusal"] is None
    medians = {
        document["submission"]["id"]: [
            case["median_us"] for case in document["evaluation"]["cases"] if case["kind"] == "benchmark"
        ]
        for document in documents
    }
    assert [case["old_us"] for case in diff["cases"]] == medians[1]
    assert [case["new_us"] for case in diff["cases"]] == medians[2]
    for command in (["leaderboard", "vectoradd"], ["history"], ["show", "2"], ["diff"]):
        text = harness(*command)
        assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("logs: "))
        assert not re.search(r"\x1b|Traceback", text)

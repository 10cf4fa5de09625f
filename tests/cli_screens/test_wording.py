"""Counts and their nouns."""

from __future__ import annotations

from harness.wording import counted, noun_for


def test_a_noun_agrees_with_its_count() -> None:
    assert [counted(n, "case") for n in (0, 1, 2, 1200)] == ["0 cases", "1 case", "2 cases", "1,200 cases"]
    assert [counted(n, "launch", "launches") for n in (1, 2)] == ["1 launch", "2 launches"]
    assert noun_for(1, "has", "have") == "has"

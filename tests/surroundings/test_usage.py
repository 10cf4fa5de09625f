"""Command lines that can't be understood, as a script reads what is wrong with them: one document, like any error's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calling import Harness

ERRORS: list[tuple[str, str, str, str | None, str | None]] = [
    # the command line; what, where, allowed (or how it begins, before …), hint
    ("history --lmit 3", "there is no option '--lmit'", "--lmit", "--user, …", "Did you mean '--limit'?"),
    ("--bogus", "there is no option '--bogus'", "--bogus", "--version, …",
     "Usage: harness [OPTIONS] COMMAND [ARGS]..."),
    ("--json history", "there is no option '--json'", "--json", "--version, …",
     "It goes after the command, as in `harness history --json`."),
    ("histry", "no command 'histry'", "histry", "boards, …", "Did you mean 'history'?"),
    ("show", "the argument ID is missing", "ID", None, "Usage: harness show [OPTIONS] ID"),
    ("compare a.py", "the argument B is missing", "B", None, "Usage: harness compare [OPTIONS] A B"),
    ("history a b c", "got unexpected extra arguments (b c)", "b c", None, "Usage: harness history [OPTIONS] [BOARD]"),
    ("run a.py --grid ful", "'ful' is no choice", "--grid", "full, cpu", "Did you mean 'full'?"),
    ("compare 1 2 --processes 3", "'3' is no choice", "--processes", "1, 2, 4, 8, 16", None),
    ("history --limit x", "'x' is not a whole number", "--limit", "0 or more", None),
    ("history --limit -1", "-1 is too small", "--limit", "0 or more", None),
    ("compare 1 2 --budget inf", "inf is out of range", "--budget", "0 or more", None),
    ("leaderboard x --since z", "'z' is no date", "--since", "2026-11-01, 2026-11-01T18:30", None),
    ("leaderboard x --all --since 2026-11-01",
     "--since compares users' ranks, --all ranks sources: give one of the two", "--since, --all", None, None),
    ("delete tag", "'tag' is no id", "ID…", None,
     "Only ids are taken here, not tags; `harness history` lists them."),
    ("import kernels.jsonl", "File 'kernels.jsonl' does not exist", "FILE", None, "Did you mean 'kernel.jsonl'?"),
    ("import - --format parquet", "standard input takes JSON lines alone, without --format parquet", "-", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "what", "where", "allowed", "hint"), ERRORS, ids=[error[0] for error in ERRORS])
def test_one_document(
    harness: Harness, place: Path, line: str, what: str, where: str, allowed: str | None, hint: str | None
) -> None:
    (place / "here" / "kernel.jsonl").touch()
    told = harness(*line.split(), *(() if "--json" in line else ("--json",)))
    assert told.status == 2
    error = json.loads(told.out)["error"]
    if allowed is not None and allowed.endswith("…"):
        assert error["allowed"].startswith(allowed[:-1])
        error["allowed"] = allowed
    assert error == {"code": "bad_request", "what": what, "where": where, "allowed": allowed, "hint": hint}
    if hint is not None:
        assert hint in told.words
        assert told.words.count("Did you mean") <= 1


def test_an_option_without_its_value(harness: Harness) -> None:
    told = harness("history", "--json", "--limit")
    error = json.loads(told.out)["error"]
    assert (told.status, error["where"], error["what"]) == (2, "--limit", "option '--limit' requires an argument")

"""Standard streams that are full, closed, read by nobody, or take ASCII alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from calling import Harness

SCREENS = (
    ("boards",),
    ("boards", "vectoradd"),
    ("leaderboard", "cholesky"),
    ("leaderboard", "cholesky", "--since", "2001-01-01"),
    ("history",),
    ("show", "2"),
    ("show", "4", "--no-code"),
    ("diff", "1", "2"),
    ("note", "1"),
    ("restore", "1", "--to", "a.py", "--force"),
    ("init", "vectoradd", "-o", "b.py", "--force"),
    ("--help",),
)
DOCUMENTS = tuple((*screen, "--json") for screen in SCREENS[:-1])
ERRORS = (("show", "99"), ("show", "99", "--json"), ("nothing",), ("history", "--limit", "x", "--json"))
IDS = [" ".join(each) for each in (*SCREENS, *DOCUMENTS)]


@pytest.mark.parametrize("arguments", [*SCREENS, *DOCUMENTS], ids=IDS)
def test_a_result_that_can_not_be_written(harness: Harness, arguments: tuple[str, ...]) -> None:
    full = harness(*arguments, stdout="/dev/full")
    assert (full.status, full.words) == (
        3,
        "harness: standard output can't be written: No space left on device\nWhat was recorded is kept.\n",
    )
    unread = harness(*arguments, stdout="no reader")
    assert (unread.status, unread.err) == (141, b"")
    unseen = harness(*arguments, stdout="closed")
    assert (unseen.status, unseen.err) == (0, b"")


@pytest.mark.parametrize("arguments", [*ERRORS, *SCREENS[:5]], ids=str)
def test_words_that_nobody_hears(harness: Harness, arguments: tuple[str, ...]) -> None:
    """The status is the same; what of an error is a document arrives."""
    heard = harness(*arguments)
    for stderr in ("/dev/full", "no reader", "closed"):
        unheard = harness(*arguments, stderr=stderr)
        assert (unheard.status, unheard.out) == (heard.status, heard.out)
    assert harness(*arguments, stdin="closed", stdout="closed", stderr="closed").status == heard.status


@pytest.mark.parametrize("arguments", ERRORS, ids=str)
def test_an_error_whose_document_can_not_be_written_is_still_told(harness: Harness, arguments: tuple[str, ...]) -> None:
    told = harness(*arguments)
    full = harness(*arguments, stdout="/dev/full")
    assert (full.status, full.err) == (2, told.err)
    assert harness(*arguments, stdout="closed").err == told.err


@pytest.mark.parametrize("arguments", SCREENS, ids=str)
def test_every_screen_in_ascii_and_latin_1(harness: Harness, arguments: tuple[str, ...]) -> None:
    """As many lines, the figures at their places, and what ASCII lacks told by what looks like it."""
    whole = harness(*arguments).out.decode()
    plain = harness(*arguments, encoding="ascii").out.decode("ascii")
    assert plain.count("\n") == whole.count("\n")
    assert plain.count("?") == whole.count("?")
    assert harness(*arguments, encoding="latin-1").out.decode("latin-1").count("\n") == whole.count("\n")
    if arguments[0] == "history":
        assert "trend  #_  200 us -> 169 us" in plain
    if arguments[0] == "leaderboard":
        assert "168.83 us  +- 0.5 %" in plain
        assert "---------" in plain


@pytest.mark.parametrize("arguments", DOCUMENTS, ids=str)
def test_every_document_is_the_same_in_ascii(harness: Harness, place: Path, arguments: tuple[str, ...]) -> None:
    harness("note", "1", "größer → 🙂")
    whole = harness(*arguments).out.decode("utf-8")
    if arguments[0] == "restore":
        (place / "here" / "a.py").unlink()
    plain = harness(*arguments, encoding="ascii").out.decode("ascii")
    assert json.loads(plain) == json.loads(whole)


def test_utf_16_has_one_byte_order_mark(harness: Harness) -> None:
    assert harness("history", encoding="utf-16").out.decode("utf-16") == harness("history").out.decode()


def test_a_real_shell(place: Path, sample: Path) -> None:
    """The same by the interpreter's own streams: what it makes of an environment, and what it does when it ends."""
    command = f"{sys.executable} -m harness.cli.main"
    environment = {**os.environ, "HARNESS_DATABASE_URL": f"sqlite:///{sample}", "HARNESS_USER": "ada"}
    script = f"""
        {command} history | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}
        {command} history --json >/dev/full; echo $?
        {command} history >&- 2>&-; echo $?
        PYTHONIOENCODING=ascii {command} history | head -1
        LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {command} history | head -1
    """
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=place, timeout=120
    )
    unread, full, closed, *first_lines = done.stdout.splitlines()
    assert unread in ("0", "141")  # whether the reader is gone before all is written is a race
    assert (full, closed) == ("3", "0")
    assert first_lines == ["cholesky . ada"] * 2
    assert done.stderr.splitlines() == [
        "harness: standard output can't be written: No space left on device",
        "What was recorded is kept.",
    ]

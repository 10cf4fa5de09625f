"""Arguments, names and texts that are no text, or more than text."""

from __future__ import annotations

import json
import os
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
import sample_store
from calling import Harness

from harness.evaluation.record import Device
from harness.store import Store

NO_TEXT = "\udcff"
REDDENING = "\x1b[31mred\x1b]0;title\x07"
HOSTILE = (NO_TEXT, "", "two\nlines", REDDENING, "\u202egnippilf", " ", "-", "x" * 5000)
PLACES = (
    ("boards", "?"),
    ("leaderboard", "?"),
    ("leaderboard", "cholesky", "--since", "?"),
    ("leaderboard", "cholesky", "--limit", "?"),
    ("history", "?"),
    ("history", "?", "--json"),
    ("history", "--user", "?"),
    ("history", "--tag", "?"),
    ("history", "--device", "?"),
    ("history", "--protocol", "?"),
    ("show", "?"),
    ("show", "?", "--json"),
    ("diff", "?"),
    ("diff", "1", "?"),
    ("diff", "--leaderboard", "?"),
    ("diff", "1", "2", "--html", "?"),
    ("compare", "1", "2", "--leaderboard", "?"),
    ("note", "?"),
    ("note", "1", "?"),
    ("note", "1", "--tag", "?"),
    ("note", "1", "--untag", "?"),
    ("restore", "?"),
    ("restore", "1", "--to", "?"),
    ("delete", "?", "--yes"),
    ("init", "?"),
    ("init", "vectoradd", "-o", "?"),
    ("init", "vectoradd", "--dsl", "?"),
    ("init", "vectoradd", "--gpu", "?", "-o", "gpu.py", "--force"),
    ("compile", "?"),
    ("lint", "?"),
    ("submit", "?"),
    ("run", "kernel.py", "--leaderboard", "?"),
    ("run", "kernel.py", "--spec", "?", "--on", "nowhere"),
    ("run", "kernel.py", "--on", "?"),
    ("calibrate", "--board", "?"),
    ("?",),
    ("history", "?", "?"),
)


@pytest.mark.parametrize("arguments", PLACES, ids=" ".join)
def test_arguments_of_every_kind(harness: Harness, place: Path, arguments: tuple[str, ...]) -> None:
    """None breaks a command, and none reaches the screen as it is: the fixture looks for both."""
    (place / "here" / "kernel.py").write_text(
        "#!POPCORN leaderboard vectoradd\n\ndef custom_kernel(data): return data\n"
    )
    for hostile in HOSTILE:
        told = harness(*(hostile if each == "?" else each for each in arguments))
        assert told.status in (0, 1, 2, 3)
        if "--json" in arguments:
            json.loads(told.out)
        else:
            assert not hidden(told.out.decode()), told
        assert not hidden(told.words), told


def hidden(text: str) -> set[str]:
    """The characters that are not seen, but for the ends of lines."""
    return {character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs")} - {"\n", "\t"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("leaderboard", NO_TEXT), r"there is no board '\xff'"),
        (("show", NO_TEXT), r"no submission with the tag '\xff'"),
        (("note", "1", NO_TEXT), r"'\xff': the remark is not UTF-8 text"),
        (("note", "1", "--tag", "12"), "'12' is no tag: a number is a submission's id"),
        (("history", "--user", NO_TEXT), "is not UTF-8 text"),
        (("restore", "1", "--to", ""), "'' is no path"),
        (("init", "vectoradd", "-o", ""), "'' is no path"),
        (("submit", ""), "'' is no path"),
        (("leaderboard", ""), "there is no board ''"),
        (("boards", REDDENING), r"there is no board '\x1b[31mred\x1b]0;title\x07'"),
        (("restore", "1", "--to", "a.py", "--not-there\x1b[31m"), r"--not-there\x1b[31m"),
    ],
    ids=str,
)
def test_what_is_told_of_them(harness: Harness, arguments: tuple[str, ...], words: str) -> None:
    told = harness(*arguments)
    assert told.status == 2
    assert words in told.words


@pytest.mark.parametrize(
    "arguments",
    [("leaderboard", "cholesky"), ("leaderboard", "cholesky", "--all"), ("history",), ("history", "cholesky")],
    ids=" ".join,
)
def test_as_many_rows_as_can_be_asked_for(harness: Harness, arguments: tuple[str, ...]) -> None:
    assert harness(*arguments, "--limit", str(2**63 - 1)).out == harness(*arguments, "--limit", "0").out


def test_a_file_whose_name_is_no_text(harness: Harness, place: Path) -> None:
    for name in (f"a{NO_TEXT}.py", "two\nlines.py", f"{REDDENING}.py"):
        assert harness("restore", "1", "--to", name).status == 0
        assert os.path.exists(place / "here" / name)
        assert harness("diff", name, "2").status == 0
        assert harness("init", "vectoradd", "-o", name).status == 2
        assert harness("init", "vectoradd", "-o", name, "--force").status == 0
        document = json.loads(harness("restore", "1", "--to", name, "--force", "--json").out)
        assert os.fsencode(document["file"]) == os.fsencode(name)


def test_names_of_others_on_every_screen(harness: Harness, place: Path) -> None:
    """Names that another store's export brought in: they stay on their lines, and recolour and reorder nothing."""
    name = f"a\n1  forged  {REDDENING}\u202e\u2066\u2028.py"
    source = f"# {REDDENING}\u202e\n{sample_store.FAST}"
    with Store.open(f"sqlite:///{place / 'home' / 'harness.sqlite3'}") as store:
        for user in (name, "ada"):
            submission = store.add_submission("cholesky", user, name, source, [name])
            header = replace(
                sample_store.HEADER, device=Device("cpu", name), versions={name: name}, log=name, cases_planned=3
            )
            evaluation = store.begin_evaluation(submission, header)
            for index in range(3):
                store.add_case(evaluation, replace(sample_store.benchmark_case(index, 1.0), notes=(name,)))
            store.finish_evaluation(evaluation, sample_store.PASSED)
            store.add_note(submission, REDDENING)
    for arguments in (
        ("leaderboard", "cholesky"),
        ("leaderboard", "cholesky", "--all", "--limit", "0"),
        ("history",),
        ("history", "--limit", "1"),
        ("show", "6"),
        ("show", "7", "--no-code"),
        ("diff", "6", "7"),
        ("diff", "6", "1"),
        ("note", "6"),
        ("restore", "6"),
        ("restore", "6", "--to", "named_here.py"),
        ("delete", "6", "--yes"),
    ):
        told = harness(*arguments)
        refused = arguments == ("restore", "6")  # it would make a file of that name
        assert told.status == (2 if refused else 0), told
        for text in (told.out.decode(), told.words):
            assert not hidden(text), text
            if arguments[0] in ("leaderboard", "history", "delete"):
                assert not [line for line in text.splitlines() if line.split()[:2] == ["1", "forged"]], text


def test_what_a_submission_says_moves_no_cursor(harness: Harness, place: Path) -> None:
    """Neither its header's warnings, nor the line of its case as it fails, nor the screen at the end."""
    (place / "here" / "kernel.py").write_text(
        "#!POPCORN leaderboard vectoradd\n#!POPCORN gpu \x1b[31mred\n# !popcorn \x1b[31m\n\n"
        "def custom_kernel(data):\n    raise ValueError('\\x1b[31m \\u202e \\udcff \\x9b31m')\n"
    )
    told = harness("run", "kernel.py", "--case", "0", "--grid", "cpu", "--isolation", "none")
    assert told.status == 1
    for text in (told.out.decode(), told.words):
        assert not hidden(text)
        assert r"ValueError: \x1b[31m \u202e \xff \x9b31m" in text

"""Files that are cut short or damaged: what is whole goes in, one error says how far, the whole file adds the rest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from harness.store.bulk import NewSubmission, open_bulk
from harness.transfer import line_files

Run = Callable[..., Result]
ROWS = 300


@pytest.fixture
def exported(home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compressed export of another store."""
    with monkeypatch.context() as patch:
        patch.setenv("HARNESS_DATABASE_URL", f"sqlite:///{home}/other.sqlite3")
        moment = "2026-11-01T00:00:00.000000Z"
        with open_bulk() as writer:
            writer.add([NewSubmission(f"o/{n}", "b", "ada", "a.py", f"# {n * n}", moment, "[]") for n in range(ROWS)])
        assert harness("export", home / "whole.jsonl.gz").exit_code == 0
    return home / "whole.jsonl.gz"


def test_a_file_cut_short_goes_in_as_far_as_it_is_whole(exported: Path, harness: Run) -> None:
    content = exported.read_bytes()
    cut = exported.with_name("cut.jsonl.gz")
    cut.write_bytes(content[: len(content) // 2])
    done = harness("import", cut)
    assert (done.exit_code, done.stdout) == (2, "")
    first, *hint = done.stderr.splitlines()
    added = int(first.partition("up to there: added ")[2].split()[0])
    assert f"{cut}: the file is cut short after line {added + 1}; up to there: added {added} submissions" in first
    assert 0 < added < ROWS
    assert hint == ["What was added stays. Get the whole file and import that: nothing is added twice."]
    again = json.loads(harness("import", exported, "--json").stdout)
    assert (again["submissions_added"], again["known"], again["bad"]) == (ROWS - added, added, 0)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_lines_that_end_in_the_middle_of_one_are_cut_short(exported: Path, harness: Run, ending: str) -> None:
    """Compressed or not: what wrote them stopped, or the copy of them did."""
    content = gzip.decompress(exported.read_bytes())
    begin = content.index(b"\n", len(content) // 2) + 1
    whole = content[:begin].count(b"\n")
    cut = exported.with_name(f"cut{ending}")
    cut.write_bytes((gzip.compress if ending.endswith("gz") else bytes)(content[: begin + 40]))
    done = harness("import", cut, "--json")
    assert done.exit_code == 2
    document = json.loads(done.stdout)
    assert (document["submissions_added"], document["bad"]) == (whole - 1, 0)
    assert document["error"]["what"].startswith(f"the file is cut short after line {whole}; up to there: added")
    assert json.loads(harness("import", exported, "--json").stdout)["submissions_added"] == ROWS - whole + 1


def test_a_last_line_without_its_end_is_whole_all_the_same(exported: Path, harness: Run) -> None:
    lines = exported.with_name("lines.jsonl")
    lines.write_bytes(gzip.decompress(exported.read_bytes())[:-1])
    assert f"added {ROWS} submissions" in harness("import", lines).stdout


def test_the_document_has_both_the_counts_and_the_error(exported: Path, harness: Run) -> None:
    cut = exported.with_name("cut.jsonl.gz")
    cut.write_bytes(exported.read_bytes()[:-4])  # the checksum's end: every line is there
    done = harness("import", cut, "--json")
    assert done.exit_code == 2
    document = json.loads(done.stdout)
    assert document["submissions_added"] == ROWS
    assert document["error"]["code"] == "bad_request"
    assert document["error"]["what"].startswith(f"the file is cut short after line {ROWS + 1}; up to there: added")


@pytest.mark.parametrize("place", [2000, -6])
def test_a_file_whose_bytes_have_changed_adds_nothing(exported: Path, harness: Run, place: int) -> None:
    """A changed line would stand in the place of the right one for ever."""
    content = bytearray(exported.read_bytes())
    content[place] ^= 0x55
    exported.write_bytes(content)
    done = harness("import", exported)
    assert done.exit_code == 2
    assert "the compressed file is damaged" in done.stderr
    assert "Nothing was added" in done.stderr
    assert len(harness("export", "-").stdout.splitlines()) == 1


def test_a_line_that_is_too_long_is_one_bad_line(exported: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "LONGEST_LINE_BYTES", 1000)
    lines = gzip.decompress(exported.read_bytes()).splitlines(keepends=True)[:4]
    long = exported.with_name("long.jsonl")
    long.write_bytes(b"".join([*lines[:2], b'"' + 5000 * b"x" + b'"\n', *lines[2:]]))
    done = harness("import", long)
    assert done.exit_code == 2
    assert done.stderr == f"{long}: line 3: it is too long (allowed: 64 MiB)\n"
    assert "added 3 submissions" in done.stdout

"""note, restore, delete, the history's filters, and the techniques and remarks on its screen."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_store
from click.testing import Result

from harness.store import Store, open_reader
from harness.techniques import EXTRACTOR_VERSION

Run = Callable[..., Result]


def ids(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [str(row["id"]) for row in json.loads(result.output)["submissions"]]


def test_notes_and_tags(filled: Path, harness: Run) -> None:
    assert "Nothing is kept on it." in harness("note", "2").output
    harness("note", "2", "spills", "at", "\x1b[31m128")
    shown = harness("note", "2", "--tag", "wip", "--tag", "tma").output
    assert shown.startswith("submission 2 · #tma #wip\n")
    assert "spills at \\x1b[31m128" in shown
    document = json.loads(harness("note", "2", "--untag", "wip", "--json").output)
    assert (document["tags"], [note["id"] for note in document["notes"]]) == (["tma"], [1])
    assert json.loads(harness("note", "2", "--remove", "1", "--json").output)["notes"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99", "x"], "there is no submission 99"),
        (["2", "--tag", "two words"], "'two words' is no tag"),
        (["2", "--remove", "5"], "submission 2 has no notes"),
        (["2", "--untag", "nope"], "submission 2 has no tags"),
    ],
)
def test_notes_that_can_not_be(filled: Path, harness: Run, arguments: list[str], message: str) -> None:
    result = harness("note", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_tag_names_a_submission(filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever an id does, but to delete; a file of that name goes first."""
    monkeypatch.chdir(filled)
    for id, tags in ((1, ("first", "both")), (2, ("best-one", "both")), (3, ("bobs",))):
        harness("note", str(id), *(word for tag in tags for word in ("--tag", tag)))
    for by_tag, by_id in (
        (("show", "best-one"), ("show", "2")),
        (("diff", "first", "best-one"), ("diff", "1", "2")),
        (("diff", "best-one"), ("diff", "2")),
        (("diff", "bobs", "1", "--user", "bob"), ("diff", "3", "1")),
        (("note", "best-one"), ("note", "2")),
        (("restore", "best-one", "--to", "a.py", "--json"), ("restore", "2", "--to", "b.py", "--json")),
    ):
        told, expected = harness(*by_tag), harness(*by_id)
        assert told.exit_code == 0, told.output
        assert told.output.replace("a.py", "b.py") == expected.output
    assert harness("note", "best-one", "a", "remark").output.endswith("a remark\n")
    for arguments in (
        ("show", "both"),
        ("diff", "both", "1"),
        ("restore", "both"),
        ("note", "both"),
        ("compile", "both"),
    ):
        refused = harness(*arguments)
        assert refused.exit_code == 2
        assert refused.stderr == (
            "2 submissions on cholesky have the tag 'both' (allowed: one of their ids: 1, 2)\n"
            "`harness note 1 --untag both` takes it from 1."
        )
    for arguments in (("show", "bobs"), ("show", "none")):  # somebody else's, and nobody's
        assert f"ada has no submission with the tag '{arguments[1]}'" in harness(*arguments).stderr
    assert "Only ids are taken here, not tags" in harness("delete", "best-one", "--yes").stderr
    (filled / "best-one").write_text("x = 1\n")
    assert "best-one (file)" in harness("diff", "best-one", "1").output


def test_a_tag_that_two_submissions_have_is_warned_of(filled: Path, harness: Run) -> None:
    assert "warning" not in harness("note", "1", "--tag", "best").stderr
    assert "warning" not in harness("note", "3", "--tag", "best").stderr  # bob's
    assert harness("note", "2", "--tag", "best").stderr == (
        "warning: submission 1 on cholesky has the tag 'best', too: it names none of them; "
        "`harness note 1 --untag best` takes it from 1\n"
    )
    assert "submissions 1, 2 on cholesky have the tag 'best', too" in harness("note", "4", "--tag", "best").stderr


def test_a_tag_on_two_boards_is_that_of_the_other_operand_or_of_the_latest(filled: Path, harness: Run) -> None:
    with Store.open() as store:
        elsewhere = [store.add_submission("softmax", "ada", "s.py", f"x = {number}") for number in (1, 2)]
        for id in (1, elsewhere[0]):
            store.change_tags(id, add=["best"])
        store.change_tags(2, add=["slow"])
    assert "warning" not in harness("note", "1", "--tag", "best").stderr  # on another board it names another

    def operands(*arguments: str) -> list[int]:
        document = json.loads(harness("diff", *arguments, "--json").output)
        return [document["old"]["id"], document["new"]["id"]]

    assert operands("best", "slow") == [1, 2]
    assert operands("slow", "best") == [2, 1]
    assert operands("best", str(elsewhere[1])) == elsewhere
    assert operands("best", "best") == [elsewhere[0]] * 2  # that of the latest
    assert operands("best", "best", "--leaderboard", "cholesky") == [1, 1]
    assert harness("show", "best").output == harness("show", str(elsewhere[0])).output
    (filled / "k.py").write_text("#!POPCORN leaderboard cholesky\nx = 1\n")
    assert harness("diff", "best", str(filled / "k.py")).output.startswith("old  1 · cholesky")
    os.mkfifo(filled / "pipe.py")  # which can be read once
    writer = threading.Thread(target=(filled / "pipe.py").write_bytes, args=((filled / "k.py").read_bytes(),))
    writer.start()
    shown = harness("diff", "best", str(filled / "pipe.py")).output
    writer.join()
    assert shown.startswith("old  1 · cholesky")
    assert "\n+x = 1\n" in shown


def test_what_is_neither_a_file_nor_a_tag(filled: Path, harness: Run) -> None:
    told = harness("diff", "nofile.py", "1")
    assert told.exit_code == 2
    assert told.stderr == (
        "nofile.py: there is no such file, nor a submission of yours with such a tag "
        "(allowed: the id of a submission (digits), a file, or a tag of yours)\n"
        "`harness history` shows ids and tags."
    )
    (filled / "nofiles.py").write_text("")
    assert "Did you mean" in harness("diff", str(filled / "nofile.py"), "1").stderr
    assert harness("diff", str(filled), "1").stderr.endswith("it is a folder (allowed: a file, an id or a tag)")


def test_a_note_or_a_tag_that_is_not_there_is_told_with_those_that_are(filled: Path, harness: Run) -> None:
    harness("note", "2", "spills", "--tag", "wip")
    assert harness("note", "2", "--remove", "5").stderr == "--remove: submission 2 has no note 5 (allowed: 1)"
    assert harness("note", "2", "--untag", "tma").stderr == "--untag: submission 2 has no tag 'tma' (allowed: wip)"


def test_it_is_said_that_a_submission_is_another_users(filled: Path, harness: Run) -> None:
    told = "submission 3 belongs to bob"
    assert told in harness("note", "3", "--tag", "his").stderr
    assert told not in harness("note", "3").stderr  # nothing changes
    assert told in harness("delete", "3", "--yes").stderr
    assert "belongs" not in harness("note", "1", "--tag", "mine").stderr
    assert "belongs" not in harness("delete", "1", "--yes").stderr


def test_restore_gives_the_bytes_back(filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled)
    assert harness("restore", "2").output == "wrote blocked.py\n"
    assert (filled / "blocked.py").read_bytes() == sample_store.FAST.encode()
    assert harness("restore", "2").output == "unchanged: blocked.py\n"
    (filled / "blocked.py").write_text("mine")
    refused = harness("restore", "2")
    assert refused.exit_code == 2
    assert "the file exists and holds something else" in refused.stderr
    assert (filled / "blocked.py").read_text() == "mine"
    harness("restore", "2", "--to", "other.py")
    assert (filled / "other.py").read_bytes() == sample_store.FAST.encode()
    document = json.loads(harness("restore", "1", "--force", "--json").output)
    assert (document["file"], document["written"]) == ("blocked.py", True)
    assert (filled / "blocked.py").read_bytes() == sample_store.SLOW.encode()


def test_restore_keeps_line_ends_and_trusts_no_path(home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    with Store.open() as store:
        store.add_submission("b", "ada", "../../etc/a.py", "x = 1\r\n\r\ny = 'é'")
        store.add_submission("b", "ada", "..", "x = 1")
    assert harness("restore", "1").output == "wrote a.py\n"
    assert (home / "a.py").read_bytes() == "x = 1\r\n\r\ny = 'é'".encode()
    assert "has no usable file name" in harness("restore", "2").stderr
    with Store.open() as store:
        store.add_submission("b", "ada", "a\x1b[31m\nb.py", "x = 1")
    for to in ((), ("--to", str(home))):
        refused = harness("restore", "3", *to)
        assert refused.exit_code == 2
        assert "has no usable file name ('a\\\\x1b[31m\\\\nb.py')" in refused.stderr
    assert sorted(path.name for path in home.iterdir()) == ["a.py", "home"]
    assert harness("restore", "3", "--to", "b.py").output == "wrote b.py\n"


@pytest.mark.parametrize("arguments", [("restore", "2", "--to"), ("diff", "1", "2", "--html")])
def test_where_to_write_is_a_file(
    filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(filled)
    refused = harness(*arguments, "-")
    assert refused.exit_code == 2
    assert f"{arguments[-1]}: - is standard output for `harness export` alone" in refused.stderr
    refused = harness(*arguments, "no/file")
    assert refused.exit_code == 2
    assert refused.stderr == "no/file: there is no folder no\nMake it, or name another."
    assert [path.name for path in filled.iterdir()] == ["home"]
    assert harness(*arguments, "./-").exit_code == 0
    assert (filled / "-").is_file()


def test_delete_asks(filled: Path, harness: Run) -> None:
    unasked = harness("delete", "1")
    assert unasked.exit_code == 2
    assert "nobody is here to confirm it" in unasked.stderr
    for id, answer, left in (("3", b"n\n", [5, 4, 2, 1]), ("1", b"n\n", [5, 4, 2, 1]), ("1", b"y\n", [5, 4, 2])):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", "delete", id],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ,
        )
        os.write(ours, answer)
        _, stderr = process.communicate(timeout=60)
        whose = b" (belongs to bob)" if id == "3" else b""
        assert b"Delete this submission for good%s?" % whose in stderr
        os.close(ours)
        os.close(theirs)
        assert ids(harness("history", "--json")) == [str(number) for number in left]


def test_delete_takes_the_ranking_along(filled: Path, harness: Run) -> None:
    logs = filled / "home" / "logs" / "17"
    logs.mkdir(parents=True)
    assert harness("delete", "2", "3", "--yes").output.endswith("deleted 2, 3\n")
    assert logs.is_dir()  # these submissions' logs were elsewhere
    assert ids(harness("history", "--json")) == ["5", "4", "1"]
    ranking = json.loads(harness("leaderboard", "cholesky", "--json").output)["rankings"][-1]
    assert [(entry["user"], entry["submission"]) for entry in ranking["entries"]] == [("ada", 1)]
    assert harness("show", "2").exit_code == 2


def test_filters(filled: Path, harness: Run) -> None:
    harness("note", "1", "--tag", "first")
    for arguments, expected in (
        (["--device", "h200"], ["5"]),
        (["--device", "xeon"], ["4", "2", "1"]),
        (["--protocol", "popcorn"], []),
        (["--since", "2999-01-01"], []),
        (["--since", "2001-01-01"], ["5", "4", "2", "1"]),
        (["--best"], ["5", "2", "1"]),
        (["--tag", "first"], ["1"]),
        (["cholesky", "--best", "--device", "xeon"], ["2", "1"]),
    ):
        assert ids(harness("history", "--json", *arguments)) == expected, arguments
    shown = harness("history", "--since", "2999-01-01").output
    assert shown == "None of ada's 4 submissions matches --since 2999-01-01 00:00.\n"
    shown = harness("history", "cholesky", "--tag", "none", "--device", "H100", "--best").output
    assert shown == "None of ada's 4 submissions on cholesky matches --device H100 --tag none --best.\n"


def test_history_tells_techniques_ranks_and_remarks(home: Path, harness: Run) -> None:
    kernel = sample_store.SLOW + "\nimport triton\n@triton.jit\ndef k(x, B: int): pass\nk[1](1, num_warps=4)\n"
    with Store.open() as store:
        sample_store.passed(store, "ada", kernel, (100.0, 100.0, 100.0))
        sample_store.passed(store, "ada", kernel.replace("num_warps=4", "num_warps=8"), (50.0, 50.0, 50.0))
        sample_store.passed(store, "bob", "x", (10.0, 10.0, 10.0))
        store.add_note(2, "twice as fast")
        store.change_tags(2, add=["warps"])
    result = harness("history")
    shown = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "2 num_warps 4 → 8 #warps “twice as fast”" in shown
    assert any(line.startswith("2 ") and line.endswith("new best 1 → 2") for line in shown)
    line = kernel.splitlines().index("k[1](1, num_warps=4)") + 1
    newest = json.loads(harness("history", "--json").output)["submissions"][0]
    assert (newest["rank_then"], newest["rank_now"], newest["tags"]) == (1, 2, ["warps"])
    assert [(f["technique"], f["value"], f["lines"]) for f in newest["gained"]] == [("num_warps", "8", [line])]
    assert [(f["technique"], f["value"]) for f in newest["lost"]] == [("num_warps", "4")]
    show = harness("show", "2", "--no-code").output
    assert "num_warps" in show
    assert "tags: #warps" in show
    assert "note 1: twice as fast" in show
    told = json.loads(harness("show", "2", "--json").output)["techniques"]
    assert [each["technique"] for each in told] == ["tile_size", "num_warps"]


def test_kept_techniques_are_used(home: Path, harness: Run) -> None:
    """What is stored for this version of the extractor is believed; another version's is not."""
    import hashlib

    with Store.open() as store:
        store.add_submission("b", "ada", "a.py", "x = 1")
        sha256 = hashlib.sha256(b"x = 1").hexdigest()
        told = '[{"technique": "tma", "value": null, "state": "enabled", "lines": [1], "when": null}]'
        store.keep_techniques(sha256, EXTRACTOR_VERSION + 1, told)
        assert json.loads(harness("show", "1", "--json").output)["techniques"] == []
        store.keep_techniques(sha256, EXTRACTOR_VERSION, told)
    assert json.loads(harness("show", "1", "--json").output)["techniques"][0]["technique"] == "tma"
    with open_reader() as reader:
        assert reader.techniques(sha256, EXTRACTOR_VERSION) == told


def test_a_header_that_can_not_be_written_leaves_the_file(
    tmp_path: Path, harness: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("precious")
    result = harness("init", "vectoradd", "--gpu", "\udcff", "-o", "mine.py", "--force")
    assert result.exit_code == 2
    assert "--gpu" in result.stderr
    assert (tmp_path / "mine.py").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["history", "--user", ""], "'' is no user's name"),
        (["history", "--user", "\udcff"], "is not UTF-8 text"),
        (["export", "out.jsonl", "--user", "a\x00b"], "is no user's name"),
        (["history", "--user", "µ" * 251], "a user's name of 502 bytes (allowed: 500)"),
        (["leaderboard", "cholesky", "--limit", "9" * 23], "is too large"),
        (["delete", "9" * 23], "is too large"),
        (["show", "9" * 23], "no submission with the tag"),
        (["diff", "9" * 5000, "1"], "can't be read"),
    ],
)
def test_what_no_store_can_hold(filled: Path, harness: Run, arguments: list[str], message: str) -> None:
    result = harness(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr

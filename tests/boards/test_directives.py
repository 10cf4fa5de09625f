from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import Language
from harness.boards.directives import MAX_BYTES, Directives, parse_directives, read_submission
from harness.errors import RequestError


def test_a_python_header() -> None:
    text = "#!POPCORN leaderboard cholesky\n#!POPCORN gpus H100 B200\n\nimport torch\n"
    directives = parse_directives(text, "k.py")
    assert (directives.leaderboard, directives.gpus) == ("cholesky", ("H100", "B200"))
    assert directives.warnings == ("k.py:2: the hosted client takes one GPU and refuses several",)


def test_a_cuda_header_and_both_spellings() -> None:
    directives = parse_directives("//!POPCORN Leaderboard id\n//!POPCORN GPU T4\n#include <x>\n", "k.cu")
    assert directives == Directives("id", ("T4",), ())


def test_shebang_and_comments_may_come_first() -> None:
    text = "#!/usr/bin/env python3\n# by me\n#\n#!POPCORN leaderboard softmax\nx = 1\n"
    assert parse_directives(text, "k.py") == Directives("softmax", (), ())


@pytest.mark.parametrize("first", ["\n", "import torch\n", '"""doc"""\n', " \n"])
def test_a_directive_outside_the_first_block_is_not_read_and_is_named(first: str) -> None:
    directives = parse_directives(first + "#!POPCORN leaderboard softmax\n", "k.py")
    assert directives.leaderboard is None
    (warning,) = directives.warnings
    assert warning.startswith("k.py:2: ")
    assert "`softmax`" in warning


def test_the_client_takes_the_last_line() -> None:
    text = "#!POPCORN leaderboard a\n#!POPCORN gpu T4\nx = 1\n#!POPCORN leaderboard b\n#!POPCORN gpu\n"
    directives = parse_directives(text, "k.py")
    assert (directives.leaderboard, directives.gpus) == ("a", ("T4",))
    assert [w.split(": ")[0] for w in directives.warnings] == ["k.py:4", "k.py:5"]
    assert "leaderboard: `b`" in directives.warnings[0]
    assert "gpus: nothing" in directives.warnings[1]


def test_the_same_line_repeated_after_code_is_no_difference() -> None:
    text = "#!POPCORN leaderboard a\nx = 1\n#!POPCORN leaderboard a\n"
    assert parse_directives(text, "k.py").warnings == ()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("#!POPCORN", "`#!POPCORN` says nothing", "leaderboard cholesky"),
        ("#!POPCORN leaderbord x", "unknown directive `leaderbord`", "Did you mean 'leaderboard'?"),
        ("#!POPCORN leaderboard", "`leaderboard` needs an argument", "leaderboard cholesky"),
        ("//!POPCORN gpu  ", "`gpu` needs an argument", "//!POPCORN gpu H100"),
        ("#!POPCORN gpus A100, H100", "separated by spaces", "gpus A100 H100"),
    ],
)
def test_each_malformed_header_has_its_own_error(line: str, message: str, hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_directives("# a comment\n" + line + "\n", "k.py")
    assert caught.value.where == "k.py:2"
    assert message in caught.value.what
    assert hint in caught.value.hint


def test_repeated_keywords_name_both_lines() -> None:
    with pytest.raises(RequestError, match="first on line 1") as caught:
        parse_directives("#!POPCORN gpu T4\n#!POPCORN gpus L4\n", "k.py")
    assert caught.value.where == "k.py:2"


@pytest.mark.parametrize("line", ["#!popcorn leaderboard x", "# !POPCORN gpu T4", "#!POPCORN: leaderboard x"])
def test_a_near_miss_is_a_comment_with_a_warning(line: str) -> None:
    directives = parse_directives(line + "\n", "k.py")
    assert directives.leaderboard is None
    assert directives.gpus == ()
    assert "k.py:1: read as a plain comment" in directives.warnings[0]


def test_extra_words_after_the_leaderboard_are_said() -> None:
    directives = parse_directives("#!POPCORN leaderboard x y\n", "k.py")
    assert directives.leaderboard == "x"
    assert "'y'" in directives.warnings[0]


def test_a_byte_order_mark_is_said() -> None:
    directives = parse_directives("\ufeff#!POPCORN leaderboard x\n", "k.py")
    assert directives.leaderboard is None
    assert "byte-order mark" in directives.warnings[0]


words = st.sampled_from(
    [
        "#!POPCORN",
        "//!POPCORN",
        "#!popcorn",
        "#",
        "//",
        "leaderboard",
        "gpu",
        "gpus",
        "x",
        "A,B",
        "\n",
        "\n\n",
        " ",
        "\r",
    ]
)


@given(st.lists(words, max_size=20).map(" ".join) | st.lists(words, max_size=20).map("".join) | st.text(max_size=60))
def test_any_text_gives_directives_or_one_error(text: str) -> None:
    where = ""
    try:
        directives = parse_directives(text, "k.py")
    except RequestError as error:
        directives, where = Directives("error"), error.where
    assert (where or "k.py:").startswith("k.py:")
    assert directives.leaderboard is None or directives.leaderboard.split() == [directives.leaderboard]


def test_read_submission_keeps_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_bytes("x = 'é'\r\n".encode())
    assert read_submission(path, Language.PYTHON) == "x = 'é'\r\n"


@pytest.mark.parametrize(
    ("name", "content", "language", "message"),
    [
        ("k.txt", b"x", None, "wrong extension: '.txt'"),
        ("kernel", b"x", None, "no extension"),
        ("k.cu", b"x", Language.PYTHON, "wrong extension for a Python board: '.cu'"),
        ("k.py", b"x", Language.CUDA, "wrong extension for a CUDA board: '.py'"),
        ("k.PY", b"x", Language.PYTHON, "wrong extension"),
        ("k.py", b"", None, "the file is empty"),
        ("k.py", b" \n\n", None, "the file is empty"),
        ("k.py", b"x" * (MAX_BYTES + 1), None, "1,000,001 bytes"),
        ("k.py", b"a\nb\n\xff", None, "byte 0xff is no UTF-8"),
    ],
)
def test_files_that_are_refused(
    tmp_path: Path, name: str, content: bytes, language: Language | None, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError) as caught:
        read_submission(tmp_path / name, language)
    assert message in caught.value.what


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "k.cuh").write_bytes(b"/" * MAX_BYTES)
    assert len(read_submission(tmp_path / "k.cuh", Language.CUDA)) == MAX_BYTES


def test_a_missing_file_suggests_a_near_one(tmp_path: Path) -> None:
    (tmp_path / "cholesky.py").write_text("x")
    with pytest.raises(RequestError) as caught:
        read_submission(tmp_path / "choleski.py")
    assert caught.value.hint == "Did you mean 'cholesky.py'?"


def test_bad_utf8_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_bytes(b"a\nb\n\xff")
    with pytest.raises(RequestError) as caught:
        read_submission(tmp_path / "k.py")
    assert caught.value.where.endswith("k.py:3")

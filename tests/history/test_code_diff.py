from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.history.code_diff import LineKind, changed_words, code_diff


def numbered(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def test_equal_texts_have_no_diff() -> None:
    assert code_diff("a\nb\n", "a\nb") == []


def test_a_change_in_the_middle_of_a_long_file() -> None:
    old = numbered(*range(1, 31))
    new = old.replace("line 25\n", "line twenty-five\n")
    assert [str(line) for line in code_diff(old, new)] == [
        "⋯ 21 unchanged lines",
        " line 22",
        " line 23",
        " line 24",
        "-line 25",
        "+line twenty-five",
        " line 26",
        " line 27",
        " line 28",
        "⋯ 2 unchanged lines",
    ]


def test_a_single_unchanged_line_is_not_folded() -> None:
    old = numbered(*range(1, 6))
    lines = code_diff(old, old.replace("line 1\n", "line one\n"))
    assert [str(line) for line in lines] == ["-line 1", "+line one", " line 2", " line 3", " line 4", " line 5"]


def test_line_numbers() -> None:
    lines = code_diff("a\nb\nc\n", "a\nx\ny\nc\n")
    assert [(line.old_line, line.new_line) for line in lines] == [(1, 1), (2, None), (None, 2), (None, 3), (3, 4)]


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=40)


@given(LINES, LINES)
def test_both_texts_can_be_read_off(old: list[str], new: list[str]) -> None:
    """Every line of either side is in the diff at its place, or inside a fold that counts it."""
    lines = code_diff("\n".join(old), "\n".join(new))
    old, new = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    if old == new:
        assert lines == []
        return
    for side, skipped, text in (("old_line", LineKind.ADDED, old), ("new_line", LineKind.REMOVED, new)):
        position = 0
        for line in lines:
            if line.kind is LineKind.FOLD:
                position += int(line.text.split()[0])
            elif line.kind is not skipped:
                assert getattr(line, side) == position + 1
                assert line.text == text[position]
                position += 1
        assert position == len(text)


def test_changed_words_are_whole_words() -> None:
    old, new = "num_warps=4, num_stages=3)", "num_warps=8, num_stages=3)"
    before, after = changed_words(old, new)
    assert [old[start:stop] for start, stop in before] == ["4"]
    assert [new[start:stop] for start, stop in after] == ["8"]
    assert changed_words("block_m", "block_n") == (((0, 7),), ((0, 7),))
    assert changed_words("a b", "a") == (((1, 3),), ())


def test_a_changed_line_is_marked_and_a_new_one_is_not() -> None:
    lines = code_diff("x = 1\nwarps = 4\n", "x = 1\nimport os\nwarps = 8\n")
    marked = {(line.kind.value, line.text): [line.text[a:b] for a, b in line.changed] for line in lines}
    assert marked[("-", "warps = 4")] == ["4"]
    assert marked[("+", "warps = 8")] == ["8"]
    assert marked[("+", "import os")] == []


@given(st.text("ab (),=", max_size=30), st.text("ab (),=", max_size=30))
def test_what_is_not_marked_is_the_same_on_both_sides(old: str, new: str) -> None:
    before, after = changed_words(old, new)

    def rest(text: str, spans: tuple[tuple[int, int], ...]) -> str:
        return "".join(c for i, c in enumerate(text) if not any(a <= i < b for a, b in spans))

    assert rest(old, before) == rest(new, after)

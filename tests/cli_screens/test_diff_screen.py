"""The difference on a terminal, in a pipe and as a page."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_store
from click.testing import Result
from rich.console import Console

from harness.cli.diff_page import difference_page
from harness.cli.diff_screen import Difference, render_difference
from harness.cli.operands import Side
from harness.history.code_diff import code_diff
from harness.store import Store
from harness.techniques import extract

Run = Callable[..., Result]
OLD = """import triton
@triton.jit
def kernel(x, n, B): pass
def custom_kernel(data):
    kernel[(1,)](data, 1, 2, num_warps=4)
    return data
"""
NEW = OLD.replace("num_warps=4", "num_warps=8, num_stages=3").replace("return data", "return data + '<b>&'")


def difference(old: str = OLD, new: str = NEW, new_name: str = "kernel.py") -> Difference:
    sides = Side(old, "kernel.py", None), Side(new, new_name, None)
    return Difference(*sides, tuple(code_diff(old, new)), None, extract(old, "kernel.py"), extract(new, new_name))


def on_a_terminal(shown: Difference, width: int, **options: object) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, highlight=False, **options)  # type: ignore[arg-type]
    render_difference(console, shown)
    return file.getvalue()


def plain(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal(width: int) -> None:
    text = on_a_terminal(difference(), width, color_system="standard")
    shown = plain(text)
    assert all(len(line) <= width for line in shown)
    assert "5   -    kernel[(1,)](data, 1, 2, num_warps=4)" in shown
    assert "  5 +    kernel[(1,)](data, 1, 2, num_warps=8, num_stages=3)" in shown
    assert re.search(r"\x1b\[[0-9;]*4[0-9;]*31[0-9;]*m4\x1b", text)  # the 4 is underlined, in red
    assert re.search(r"\x1b\[[0-9;]*4[0-9;]*32[0-9;]*m8", text)
    assert any(line.split() == ["num_warps", "4", "(line", "5)", "8", "(line", "5)"] for line in shown)
    assert any(line.split() == ["num_stages", "–", "3", "(line", "5)"] for line in shown)


def test_without_colour_the_changed_words_still_stand_out() -> None:
    text = on_a_terminal(difference(), 80, no_color=True)
    assert "\x1b[1;4m8" in text
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", text)


def test_a_long_line_goes_on_under_its_own_beginning() -> None:
    long = "x = " + " + ".join(["value"] * 20)
    shown = plain(on_a_terminal(difference("x = 1\n", f"{long}\n"), 80, color_system=None))
    following = shown[shown.index(next(line for line in shown if line.startswith("  1 +"))) + 1]
    assert following.startswith("     value")


def test_a_tab_or_a_control_character_moves_nothing() -> None:
    old, new = "if 1:\n\tx = 'a\x1b[31m'\n", "if 1:\n\tx = 'b\x1b[31m'\n"
    shown = plain(on_a_terminal(difference(old, new), 80, color_system=None))
    assert any(line.startswith("2   -") and line.endswith("x = 'a\\x1b[31m'") for line in shown)


def test_a_pipe_gets_a_plain_diff_that_is_not_wrapped(home: Path, harness: Run) -> None:
    (home / "old.py").write_text(OLD)
    (home / "renamed.py").write_text(NEW + f"# {'long ' * 40}\n")
    output = harness("diff", str(home / "old.py"), str(home / "renamed.py")).output
    assert "renamed  old.py → renamed.py" in output
    assert f"+# {'long ' * 40}" in output
    assert "-    kernel[(1,)](data, 1, 2, num_warps=4)" in output
    assert "\x1b" not in output


def test_the_offer_to_measure(filled: Path, harness: Run) -> None:
    output = harness("diff", "1", "2").output
    assert "To measure both now, in turns: harness diff 1 2 --measure" in output
    assert "different sessions" in output


class Page(HTMLParser):
    """Checks that tags nest, and collects the text and every address that a page would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.loads: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_whole_and_loads_nothing() -> None:
    html = difference_page(difference(new_name="<new>.py"))
    page = Page(html)
    assert page.loads == []
    assert "<script" not in html
    assert "url(" not in html
    text = "".join(page.text)
    assert "    return data + '<b>&'" in text
    assert "renamed: kernel.py → <new>.py" in text
    assert "<mark>" in html
    assert "num_stages" in text


def test_the_page_has_every_figure(filled: Path, harness: Run) -> None:
    file = filled / "page.html"
    result = harness("diff", "1", "2", "--html", str(file), "--json")
    document = json.loads(result.output[result.output.index("{") :])
    text = "".join(Page(file.read_text()).text)
    assert document["techniques"] == {"lost": [], "gained": []} or document["techniques"]["lost"]
    for word in ("100.00 µs", "0.500 ± 1.6 %", "faster", "slower", "same", "0.844 ± 0.9 %", "different sessions"):
        assert word in text
    missing = harness("diff", "1", "2", "--html", str(filled / "no" / "page.html"))
    assert missing.exit_code == 2
    assert "can't be written" in missing.stderr


def test_measure_refuses_two_boards(home: Path, harness: Run) -> None:
    with Store.open() as store:
        sample_store.passed(store, "ada", OLD, (1.0, 1.0, 1.0))
        store.add_submission("softmax", "ada", "b.py", NEW)
    result = harness("diff", "1", "2", "--measure")
    assert result.exit_code == 2
    assert "times of different boards are not compared" in result.stderr

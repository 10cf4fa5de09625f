"""The difference on a terminal, in a pipe and as a page."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import cast

import pytest
import sample_store
from click.testing import Result
from rich.console import Console

from harness.boards.board import GridName, RankBy
from harness.cli.comparing import render_comparison
from harness.cli.compile_diff import render_compilation_changes
from harness.cli.diff_page import difference_page
from harness.cli.diff_screen import Difference, render_difference
from harness.cli.operands import Side
from harness.comparing.record import PairedComparison
from harness.compiling.comparison import CompilationChange, KernelChange, ResourceChange, Trend
from harness.compiling.record import Kernel
from harness.evaluation.record import EvaluationOutcome, Reason, ReasonCode, Status
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
    assert f"there is no folder {filled / 'no'}\nMake it, or name another." in missing.stderr


def test_measure_refuses_two_boards(home: Path, harness: Run) -> None:
    with Store.open() as store:
        sample_store.passed(store, "ada", OLD, (1.0, 1.0, 1.0))
        store.add_submission("softmax", "ada", "b.py", NEW)
    result = harness("diff", "1", "2", "--measure")
    assert result.exit_code == 2
    assert "times of different boards are not compared" in result.stderr


def not_passed(store: Store, status: Status, message: str, medians_us: tuple[float, ...] = ()) -> int:
    submission = store.add_submission("cholesky", "ada", "blocked.py", f"# {status}\n")
    evaluation = store.begin_evaluation(submission, sample_store.HEADER)
    for index, median_us in enumerate(medians_us):
        store.add_case(evaluation, sample_store.benchmark_case(index, median_us))
    store.finish_evaluation(evaluation, EvaluationOutcome(status, Reason(ReasonCode.WRONG_ANSWER, message)))
    return submission


def test_a_side_that_did_not_pass_says_so(home: Path, harness: Run) -> None:
    with Store.open() as store:
        sample_store.passed(store, "ada", OLD, (100.0, 200.0, 400.0))
        not_passed(store, Status.REJECTED, "3 of 1024 wrong\nand more of it", (50.0,))
        not_passed(store, Status.TIMEOUT, "")
        submission = store.add_submission("cholesky", "ada", "k.py", "# stopped\n")
    shown = harness("diff", "1", "2", "--html", str(home / "page.html")).output.splitlines()
    for line in ("new: rejected: 3 of 1024 wrong", "no score is compared: new has none (rejected)"):
        assert line in shown
        assert line in "".join(Page((home / "page.html").read_text()).text)
    assert "and more of it" not in "\n".join(shown)
    assert not any(line.startswith("old:") for line in shown)
    both = harness("diff", "3", "2").output.splitlines()
    assert "old: timeout: wrong answer" in both
    assert "no score is compared: old has none (timeout), new has none (rejected)" in both
    assert f"new: {submission} was not evaluated" in harness("diff", "2", str(submission)).output.splitlines()
    assert "no score is compared" not in harness("diff", "1", "1").output
    document = json.loads(harness("diff", "1", "2", "--json").output)
    assert document["old_outcome"] == {"status": "passed", "reason": None}
    assert document["new_outcome"]["status"] == "rejected"
    assert document["new_outcome"]["reason"]["message"].startswith("3 of 1024 wrong")


def test_a_file_has_no_figures_and_that_is_said(filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled)
    Path("v 2.py").write_text(sample_store.FAST.replace("64", "128"))
    shown = harness("diff", "1", "v 2.py").output.splitlines()
    assert "new: v 2.py is a file, not a submission, so it has no figures on record" in shown
    assert "To measure both now, in turns: harness diff 1 'v 2.py' --measure" in shown


def test_no_offer_to_measure_what_can_not_be(filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled)
    Path("other.py").write_text("#!POPCORN leaderboard softmax\n" + NEW)
    Path("broken.py").write_text("#!POPCORN leaderboard\n" + NEW)
    Path("gone.py").write_text("#!POPCORN leaderboard nowhere\n" + NEW)
    Path("nameless.py").write_text(NEW)
    page = Path("page.html")
    shown = harness("diff", "1", "other.py", "--html", str(page)).output
    for text in (shown, "".join(Page(page.read_text()).text)):
        assert "the boards differ: 1 is for cholesky, other.py is for softmax" in text
    assert "--measure" not in shown
    between = harness("diff", "nameless.py", "gone.py").output
    assert "--measure" not in between
    assert "differ" not in between
    assert harness("diff", "1", "broken.py").exit_code == 0
    assert "harness diff 1 nameless.py --measure" in harness("diff", "1", "nameless.py").output


def test_what_changed_in_the_kernels_fits_the_screen() -> None:
    names = ("registers", "spill bytes", "stack bytes", "shared bytes", "threads", "code bytes", "occupancy %")
    fields = tuple(ResourceChange(name, 1000, 2000, Trend.CHANGED) for name in names)
    kernel = cast(Kernel, object())
    kernels = (
        KernelChange("a_kernel", kernel, kernel, fields),
        *(KernelChange(f"same_{number}", kernel, kernel) for number in range(12)),
    )
    file = io.StringIO()
    render_compilation_changes(Console(file=file, width=80), [CompilationChange("sm_100a", kernels)])
    shown = file.getvalue().splitlines()
    assert max(map(len, shown)) <= 80
    assert not any(line.endswith(" ") for line in shown)
    at = next(number for number, line in enumerate(shown) if line.startswith("  a_kernel: registers 1,000 → 2,000, "))
    assert shown[at + 1].startswith("    ")
    assert shown[at + 1][4] != " "
    assert "occupancy % 1,000 → 2,000" in " ".join(" ".join(shown).split())


def test_compare_says_what_it_measured_on_as_submit_does() -> None:
    header = sample_store.HEADER
    result = PairedComparison("cholesky", GridName.CPU, header.device, header.isolation, RankBy.GEOM, 1, "")
    file = io.StringIO()
    render_comparison(Console(file=file, width=120), result, Side(OLD, "old.py", None), Side(NEW, "new.py", None))
    assert "cholesky · cpu grid · Intel Xeon @ 2.10GHz · sealed-1 · bubblewrap" in file.getvalue().splitlines()

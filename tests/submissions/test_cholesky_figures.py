"""The figures that the cholesky board's files and their README quote are those of the measurement file."""

from __future__ import annotations

import ast
import math
import re

import pytest
from cholesky_checks import FOLDER
from emulated import ROOT

MEASUREMENT = ROOT / "docs" / "measurements" / "2026-11-30-h200-cholesky-sealed.md"
PHASES = MEASUREMENT.with_name("2026-11-30-h200-cholesky-phases.md")
BASELINE = "cholesky_torch"
SUMMARY = re.compile(r"^\| (cholesky_\w+)(?: \(cuSOLVER\))? \| \d \| ([\d.]+) \| ([\d.]+) \|", re.MULTILINE)


def measured() -> dict[str, list[tuple[str, str]]]:
    """Geomean in µs and speedup, as the summary tells them; of the baseline, one pair a machine."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, us, times in SUMMARY.findall(MEASUREMENT.read_text()):
        found.setdefault(name, []).append((us, times))
    return found


NAMES = sorted(measured())
UNMEASURED = sorted({path.stem for path in FOLDER.glob("*.py")} - {*NAMES})


def docstring(name: str) -> str:
    return " ".join((ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or "").split())


def row(name: str) -> str:
    (found,) = re.findall(rf"^\| `{name}\.py` \|.*$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    return str(found)


def test_the_summary_is_there() -> None:
    assert len(NAMES) >= 10
    assert len(measured()[BASELINE]) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_measured_file_quotes_its_figure(name: str) -> None:
    figures, text, in_readme = measured()[name], docstring(name), row(name)
    assert "not run on a GPU" not in text
    assert "not run" not in in_readme
    rounded = [f"{float(us):.0f}" for us, _ in figures]
    if name == BASELINE:
        assert {us for us, _ in figures} == {*re.findall(r"([\d.]+) µs", text)}
        assert {*re.findall(r"\b(\d{4})\b", in_readme)} == {*rounded}
        return
    ((us, times),) = figures
    (quoted,) = re.findall(r"([\d.]+) µs by geomean over the board's 15 cases, ([\d.]+) times cuSOLVER", text)
    assert quoted == (us, times)
    (quoted,) = re.findall(r"(\d+) µs, ([\d.]+)×", in_readme)
    assert quoted == (rounded[0], times)


@pytest.mark.parametrize("name", UNMEASURED)
def test_another_file_quotes_none(name: str) -> None:
    assert "by geomean" not in docstring(name)
    assert "×, " not in row(name)
    assert not re.search(r"\d µs", row(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_geomeans_follow_from_the_cases(name: str) -> None:
    """The columns of a machine's table, their last row, and the summary."""
    text = MEASUREMENT.read_text()
    tables = re.findall(r"^## \w+ machine: median µs\n\n(\|.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert len(tables) == 2
    means = []
    for table in tables:
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        titles = ["cuSOLVER" if name == BASELINE else name.removeprefix("cholesky_")]
        for column in (at for at, title in enumerate(head) if title in titles):
            *cases, last = (float(row[column]) for row in rows)
            assert len(cases) == 15
            product = 1.0
            for us in cases:
                product *= us ** (1 / 15)
            assert product == pytest.approx(last, rel=5e-4)
            means.append(f"{last:.1f}")
    assert {*means} == {us for us, _ in measured()[name]}


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The first table below a heading, without its two head lines."""
    (table,) = re.findall(rf"^## {re.escape(heading)}\n[^|]*?((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def residuals(machine: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Of a file and a case, as printed: cuSOLVER's and its own."""
    table = re.findall(
        rf"^## Scaled residuals, {machine} machine\n[^|]*?((?:\|.*\n)+)", MEASUREMENT.read_text(), re.MULTILINE
    )
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]
    return {
        f"cholesky_{file}": {row[0]: (float(row[1]), float(row[at])) for row in rows}
        for at, file in enumerate(head[2:], 2)
    }


def bounds(librarys: float, ours: float) -> tuple[float, float]:
    """Of their ratio, which was taken before both were rounded to two digits."""

    def half(x: float) -> float:
        return 0.05 * 10 ** math.floor(math.log10(x))

    return (ours - half(ours)) / (librarys + half(librarys)), (ours + half(ours)) / (librarys - half(librarys))


WORST_CASE = "1·2048 spectrum"
"""Of every file but cholesky_torch_looped, beside cuSOLVER."""


def test_how_many_times_the_librarys_residuals_are_follows() -> None:
    told: dict[str, float] = {}
    for paragraph in re.findall(
        r"^Against cuSOLVER's on the same input: (.*?)\n\n", MEASUREMENT.read_text(), re.M | re.S
    ):
        assert "1·2048 `spectrum`" in paragraph
        found = re.findall(r"(cholesky_\w+)\s(?:at\smost\s)?([\d.]+)", paragraph)
        told |= {name: float(times) for name, times in found}
    every = residuals("first") | residuals("second")
    assert told.keys() == every.keys() - {"cholesky_torch_looped"}
    for name, times in told.items():
        cases = every[name]
        low, high = bounds(*cases[WORST_CASE])
        assert low - 0.05 <= times <= high + 0.05, name
        assert max(cases, key=lambda case: cases[case][1] / cases[case][0]) == WORST_CASE
        if name.startswith("cholesky_gluon"):
            assert f"at most {times} times cuSOLVER's (1·2048 `spectrum`)" in docstring(name)


def test_residuals_of_the_product_with_an_inverse_are_quoted() -> None:
    of_case = residuals("first")["cholesky_gluon_wgmma"]
    readme = " ".join((FOLDER / "README.md").read_text().split())
    librarys, ours = of_case["4·256 lowrank"]
    low, high = bounds(librarys, ours)
    assert low <= 10 <= high
    assert "up to 11.4 times cuSOLVER's (1·2048 `spectrum`)" in readme
    for text in (docstring("cholesky_gluon_wgmma"), readme):
        assert f"{100 * ours:.2f} % of what the board allows" in text
    times = {case: ours / librarys for case, (librarys, ours) in of_case.items()}
    *_, next_most, _, _ = sorted(times.values())
    assert round(next_most, 1) == round(times["16·512"], 1) == round(times["640·512"], 1) == 4.3
    assert "elsewhere up to 4.3 (16·512, 640·512)" in docstring("cholesky_gluon_wgmma")


def test_ratios_by_events_follow() -> None:
    text = MEASUREMENT.read_text()
    library = {
        (1, "1·4096"): 1807.5, (1, "2·4096"): 14584.3, (1, "1·8192"): 8665.5, (2, "2·4096"): 14487.9,
    }  # fmt: skip
    assert all(f"{us}" in text for us in library.values())
    rows = rows_of(text, "By device events")
    assert len(rows) == 8
    for name, case, us, events_us, times, by_events in rows:
        machine = 2 if name == "cholesky_cute_wgmma" else 1
        (line,) = re.findall(rf"^\| {case} \|.*\| {us} \| {times} \|.*$", text, re.MULTILINE)
        assert float(line.split("|")[2]) / float(us) == pytest.approx(float(times), abs=6e-3)
        assert library[machine, case] / float(events_us) == pytest.approx(float(by_events), abs=6e-3)


def test_what_the_phases_say_follows_from_their_table() -> None:
    text = PHASES.read_text()
    told = {row[0]: row for row in rows_of(text, "Where the gap to the speed of light goes")}
    rows = rows_of(text, "Above: parts of all blocks' time until the last one ends, %")
    assert len(rows) == len(told) == 12
    for case, _, same, *cells in rows:
        load, operands, products, factor, diagonal, piece, substitution, zeros, between, none = map(float, cells[:10])
        busy = load + products + factor + diagonal + substitution + zeros + between
        assert same == "yes"
        assert busy + operands + piece + none == pytest.approx(100, abs=0.5)
        chain = float(cells[10]) + float(cells[11])
        found = [busy, products, operands + piece, none, chain]
        assert [*map(float, told[case][2:])] == pytest.approx(found, abs=0.45)
        (line,) = re.findall(rf"^\| {case} \| ([\d.]+) % \|", MEASUREMENT.read_text(), re.MULTILINE)
        assert told[case][1] == line

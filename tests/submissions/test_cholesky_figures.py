"""The figures that the cholesky board's files and their README quote are those of the measurement file."""

from __future__ import annotations

import ast
import re

import pytest
from cholesky_checks import FOLDER
from emulated import ROOT

MEASUREMENT = ROOT / "docs" / "measurements" / "2026-11-30-h200-cholesky-sealed.md"
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

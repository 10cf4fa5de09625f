"""`scripts/bench_nvfp4` without its GPU: the boards it makes for the hard baseline, its clock's care, its table."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import yaml

from harness.boards.loader import load_board
from harness.boards.reference import Reference

REPOSITORY = Path(__file__).parents[2]
BOARDS = ("nvfp4_gemm", "nvfp4_dual_gemm", "nvfp4_group_gemm")


@pytest.fixture
def bench() -> Any:
    loader = SourceFileLoader("bench_nvfp4", str(REPOSITORY / "scripts" / "bench_nvfp4"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", BOARDS)
def test_the_hard_board_asks_what_the_real_one_asks(name: str, bench: Any, tmp_path: Path) -> None:
    real = load_board(REPOSITORY / "leaderboards" / name)
    hard = load_board(bench.hard_board(name, tmp_path))
    assert hard.full_grid.benchmarks == real.full_grid.benchmarks
    assert hard.settings.cpu_grid is not None
    assert real.settings.cpu_grid is not None
    assert hard.settings.cpu_grid.benchmarks == real.settings.cpu_grid.benchmarks
    # The figures of both are joined by labels, made of the cases as the documents have them.
    told = json.loads(json.dumps(hard.full_grid.benchmarks))
    assert [*map(bench.label, told)] == [*map(bench.label, bench.cases(name))]

    case = real.settings.cpu_grid.benchmarks[1]
    asked, decoded = Reference.load(real), Reference.load(hard)
    data = decoded.generate(case, 5)
    given = asked.ref_kernel(asked.generate(case, 5))
    expected = [c[..., 0] for c in (given if isinstance(given, list) else [given])]
    assert decoded.check(data, expected) == (True, "")
    output = decoded.load_kernel(bench.HARD / "cublas.py")(data, None)
    assert decoded.check(data, output) == (True, "")
    for wrong in (
        [c * 1.01 for c in output],
        [*output[:-1], torch.zeros_like(output[-1])],
        [c.float() for c in output],
        output[:-1],
        output[0],
    ):
        assert not decoded.check(data, wrong)[0]


@pytest.fixture
def small_board(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    board: Path = bench.hard_board("nvfp4_dual_gemm", tmp_path)
    settings = yaml.safe_load((board / "harness.yml").read_text())
    case = {"m": 128, "n": 128, "k": 256, "l": 1, "seed": 1}
    settings["grids"]["cpu"] = {"tests": [case], "benchmarks": [case]}
    (board / "harness.yml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return board


def test_a_sealed_run_of_the_hard_baseline(bench: Any, small_board: Path, tmp_path: Path) -> None:
    figures, troubles = bench.sealed(small_board, bench.HARD / "cublas.py", tmp_path / "document.json")
    full_grid = map(bench.label, bench.cases("nvfp4_dual_gemm"))
    assert list(figures) == (list(full_grid) if torch.cuda.is_available() else ["m=128 n=128 k=256"])
    assert all(us > 0 for us, _ in figures.values())
    assert troubles == []
    assert json.loads((tmp_path / "document.json").read_text())["evaluation"]["status"] == "passed"


def test_a_sealed_run_of_a_wrong_one(bench: Any, small_board: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text((bench.HARD / "cublas.py").read_text().replace("silu(gate)", "relu(gate)"))
    figures, troubles = bench.sealed(small_board, wrong, tmp_path / "document.json")
    assert figures == {}
    assert len(troubles) == 1
    assert "elements differ" in troubles[0]


def test_calls_of_the_sweep_are_checked_and_named(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"m": [40, 72], "n": [128, 256], "k": [256, 512], "g": 2}
    monkeypatch.setattr(bench, "cases", lambda board: [small])
    [(case, call, right, message)] = bench.hard_calls("nvfp4_group_gemm")
    assert (case, right, message) == (small, True, "")
    assert [c.shape for c in call()] == [(40, 128), (72, 256)]


class Choice(NamedTuple):
    split: int
    stream: int = 0


def test_the_sweep_times_what_the_kernel_chooses_from(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once for each case that the configuration can do, and what gives wrong results not at all."""
    c = torch.zeros(8, 64)
    cases = [{"m": [8] * len(k), "n": [64] * len(k), "k": k} for k in ([128], [128, 512], [256, 512])]

    def generate_input(m: list[int], n: list[int], k: list[int], seed: int) -> Any:
        return [(c, c, c)] * len(k), None, None, [(*size, 1) for size in zip(m, n, k, strict=True)]

    def launch(config: Choice, abc: Any, reordered: Any, sizes: Any) -> None:
        c.fill_(config.stream)

    def check_implementation(data: Any, outputs: list[torch.Tensor]) -> tuple[bool, str]:
        return not outputs[0].any(), "elements differ"

    def usable(sizes: Any, multiprocessors: int) -> list[Choice]:
        assert multiprocessors == 132
        choices = [Choice(1), Choice(2), Choice(1, stream=1)]
        return [choice for choice in choices if choice.split <= min(k for _, _, k in sizes) // 128]

    hopper = SimpleNamespace(usable=usable, multiprocessors=lambda device: 132, launch=launch)
    reference = SimpleNamespace(generate_input=generate_input, check_implementation=check_implementation)
    monkeypatch.setitem(sys.modules, "reference", reference)
    monkeypatch.setattr(bench, "cases", lambda board: cases)
    monkeypatch.setattr(bench, "load", lambda path: hopper)
    monkeypatch.setattr(bench, "median_us", lambda call, flush: 7.0)
    monkeypatch.setattr(torch, "empty", lambda *size, dtype, device: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    bench.events("nvfp4_group_gemm", "configurations")
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["case"], line["name"], line["us"]) for line in told] == [
        ("m=[8] n=[64] k=[128]", "split=1 stream=0", 7.0),
        ("m=[8] n=[64] k=[128]", "split=1 stream=1", None),
        ("m=[8,8] n=[64,64] k=[128,512]", "split=1 stream=0", 7.0),
        ("m=[8,8] n=[64,64] k=[128,512]", "split=1 stream=1", None),
        ("m=[8,8] n=[64,64] k=[256,512]", "split=1 stream=0", 7.0),
        ("m=[8,8] n=[64,64] k=[256,512]", "split=2 stream=0", 7.0),
        ("m=[8,8] n=[64,64] k=[256,512]", "split=1 stream=1", None),
    ]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """The sleeps asked for on a device that wakes before a call is queued, if it slept for less than so much."""

    def on_device(needed: int) -> list[int]:
        sleeps: list[int] = []

        class Event:
            def __init__(self, enable_timing: bool) -> None: ...
            def record(self) -> None: ...
            def query(self) -> bool:
                return sleeps[-1] < needed

            def elapsed_time(self, end: object) -> float:
                return 0.007

        monkeypatch.setattr(torch.cuda, "_sleep", sleeps.append)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        return sleeps

    return on_device


def test_a_sleep_too_short_for_the_host_is_lengthened(bench: Any, slept: Callable[[int], list[int]]) -> None:
    sleeps = slept(3_000_000)
    assert bench.median_us(lambda: None, torch.zeros(1)) == pytest.approx(7)
    assert sleeps == [2_000_000, *[4_000_000] * 25]

    slept(1 << 62)
    with pytest.raises(RuntimeError, match="can't queue"):
        bench.median_us(lambda: None, torch.zeros(1))


def test_the_table(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [bench.label(case) for case in bench.cases("nvfp4_gemm")]
    factors = {"nvfp4_gemm_torch": 8.0, "cublas": 1.5, "nvfp4_gemm_hopper": 1.0}
    missing = {"cublas": labels[-1]}

    def sealed(board: Path, file: Path, document: Path) -> Any:
        assert board.joinpath("task.yml").is_file()
        assert board.name == ("nvfp4_gemm_hard" if file.stem == "cublas" else "nvfp4_gemm")
        assert document.name == f"nvfp4_gemm-{file.stem}.json"
        light = None if file.stem == "cublas" else 5.0
        figures = {case: (10 * factors[file.stem], light) for case in labels if case != missing.get(file.stem)}
        return figures, ["cublas.py: failed, why"] if file.stem in missing else []

    monkeypatch.setattr(bench, "sealed", sealed)
    lines = bench.table("nvfp4_gemm", tmp_path)
    assert "| m=128 n=7168 k=16384 | 80.00 | 15.00 | 10.00 | 8.00 | 1.50 | 50 % |" in lines
    assert "| m=128 n=7168 k=2048 | 80.00 | – | 10.00 | 8.00 | – | 50 % |" in lines
    assert "| geomean | | | | 8.00 | – | |" in lines
    assert "- cublas.py: failed, why" in lines

"""`harness calibrate` on this machine's CPU, by the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.store import open_reader

FAULTS = Path(__file__).parents[2] / "scripts" / "faults"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The small board of the fault script with a baseline."""
    folder = tmp_path / "small"
    folder.mkdir()
    for name in ("task.yml", "reference.py"):
        text = (FAULTS / "board" / name).read_text()
        (folder / name).write_text(text.replace("../../../leaderboards", str(FAULTS.parents[1] / "leaderboards")))
    kernel = (FAULTS / "kernel.py").read_text()
    (folder / "kernel.py").write_text(kernel.replace("0.005", "0.05"))  # well over a call of nothing on a busy machine
    (folder / "harness.yml").write_text("baselines: [kernel.py]\n")
    return folder


def harness(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HARNESS_HOME": str(home), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "harness.cli.main", "calibrate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_a_cpu_and_a_boards_noise(tmp_path: Path, board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    done = harness(home, "--board", board, "--runs", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    figures = document["figures"]
    assert set(figures) == {"copy_bytes_per_s", "flops_fp32", "launch_ns", "noop_ns", "noop_spread_ns"}
    assert 1e8 < figures["copy_bytes_per_s"] < 1e13
    assert 1e9 < figures["flops_fp32"] < 1e14
    assert 100 < figures["launch_ns"] < 1e6
    assert figures["noop_ns"] > 1000
    assert document["state"]["before"]["cores"] >= 1
    (noise,) = document["noise"]
    assert (noise["leaderboard"], noise["grid"], noise["protocol"], noise["runs"]) == ("small", "cpu", "sealed-1", 3)
    assert all(score > 10_000 for score in noise["scores_us"]), "the kernel sleeps 50 ms"
    assert noise["delta"] >= 0.001
    monkeypatch.setenv("HARNESS_HOME", str(home))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    with open_reader() as reader:
        kept = reader.device_calibration(document["device"])
        noises = reader.noise_calibrations("small")
    assert kept is not None
    assert dict(kept.figures) == figures
    assert kept.rates == {"fp32": figures["flops_fp32"]}
    assert [each.noise.delta for each in noises] == ([noise["delta"]] if noise["kept"] else [])


def test_a_board_without_a_baseline_is_a_wrong_request(tmp_path: Path, board: Path) -> None:
    (board / "harness.yml").write_text("{}\n")
    done = harness(tmp_path / "home", "--board", board)
    assert done.returncode == 2
    assert "names no baseline" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_board_is_a_wrong_request(tmp_path: Path) -> None:
    done = harness(tmp_path / "home", "--board", "choleski")
    assert done.returncode == 2
    assert "cholesky" in done.stderr

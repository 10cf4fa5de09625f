"""`harness calibrate`: measure this device, and the noise between runs of boards on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from harness.boards.board import Precision
from harness.boards.find import find_board, find_boards
from harness.calibrating.record import BANDWIDTH, FLOPS, LAUNCH, NOOP, NOOP_SPREAD, DeviceCalibration
from harness.cli.common import WholeNumber, json_option, print_json, say, stdout_console
from harness.cli.device import device_held
from harness.measure.noise import FEWEST_RUNS, MOST_DELTA, NoiseCalibration, coefficient_of_variation

if TYPE_CHECKING:
    from pathlib import Path

    from harness.boards.board import Board
    from harness.evaluation.workers import ForkServer
    from harness.measure.speed_of_light import Peaks


@click.command("calibrate")
@click.option(
    "--board", "names", multiple=True, metavar="BOARD", help="Measure its noise between runs too; repeatable."
)
@click.option(
    "--runs", type=WholeNumber(FEWEST_RUNS), default=5, show_default=True, help="Runs of each board's baseline."
)
@json_option
def calibrate_command(names: tuple[str, ...], runs: int, as_json: bool) -> None:
    """Measure this device: copy bandwidth, matrix rates, launch cost, what the clock costs.

    With --board, the board's baseline is evaluated several times as a submission is. The relative spread s of its
    scores gives δ = t · √2 · s, at least 0.1 % (t: Student's at 97.5 % for that many runs): scores that differ by less
    share a rank on this device. What was measured is recorded, and the newest calibration counts.

    \b
    harness calibrate
    harness calibrate --board cholesky --board nvfp4_gemm --runs 6

    Exit status: 0 done; 2 the request was wrong; 3 this machine can't do it.
    """
    boards = [find_board(name) for name in dict.fromkeys(names)]  # before torch is imported

    from harness.calibrating.noise import baseline
    from harness.store import Store

    for board in boards:
        baseline(board)  # there is one, before anything is measured
    with device_held(), _workplace() as (logs, server), Store.open() as store:
        device = _measure_device(boards, logs, server)
        store.keep_calibration(device)
        noises = []
        for board in boards:
            noises.append(_measure_noise(board, runs, logs, server))
            if _kept(noises[-1]):
                store.keep_calibration(noises[-1])
            else:
                say(f"warning: {board.name}: δ is over {100 * MOST_DELTA:.0f} %, so not kept; is the machine busy?")
    if as_json:
        print_json({**_device_document(device), "noise": [_noise_document(each) for each in noises]})
    else:
        _render(device, noises)


def _kept(calibration: NoiseCalibration) -> bool:
    return calibration.noise.delta <= MOST_DELTA


@contextmanager
def _workplace() -> Iterator[tuple[Path, ForkServer]]:
    """A folder for the workers' logs and a warm fork server; both are gone afterwards."""
    from harness.evaluation.host import server_environment
    from harness.evaluation.workers import ForkServer
    from harness.scratch import Scratch

    scratch = Scratch.make("harness-calibrate-")
    server = ForkServer(server_environment())
    try:
        yield scratch.path, server
    finally:
        server.close()
        scratch.remove()


def _measure_device(boards: list[Board], logs: Path, server: ForkServer) -> DeviceCalibration:
    from harness.calibrating.clock import noop_ns
    from harness.calibrating.rates import measure
    from harness.evaluation import machine
    from harness.evaluation.state import StateWatch
    from harness.sandbox import best_level, harden_supervisor

    device = machine.device()
    watch = StateWatch(device.kind)
    for warning in watch.look("before"):
        say(f"warning: {warning}")
    figures = {}
    for name, value in measure(device.kind):
        figures[name] = value
        say(f"  {_words(name, value)}")
    harden_supervisor()  # after CUDA has been opened, which looks into /proc/self
    board = boards[0] if boards else find_boards()[0]
    cuda = device.kind == "cuda"
    figures[NOOP], figures[NOOP_SPREAD] = noop_ns(
        board, cuda=cuda, isolation=best_level(), logs=logs / "clock", server=server
    )
    say(f"  {_words(NOOP, figures[NOOP])}")
    for warning in watch.look("after"):
        say(f"warning: {warning}")
    return DeviceCalibration(device, figures, datetime.now(UTC), machine.versions(), watch.state)


def _measure_noise(board: Board, runs: int, logs: Path, server: ForkServer) -> NoiseCalibration:
    from harness.calibrating.noise import measure_noise
    from harness.sandbox import best_level

    return measure_noise(
        board,
        runs,
        isolation=best_level(),
        logs=logs / board.name,
        server=server,
        on_run=lambda number, score_ns: say(f"  {board.name}, run {number + 1} of {runs}: {score_ns / 1e3:,.2f} µs"),
    )


def _words(name: str, value: float) -> str:
    return " ".join(_what_and_figure(name, value))


def _what_and_figure(name: str, value: float) -> tuple[str, str]:
    if name == BANDWIDTH:
        return "copy", f"{value / 1e9:,.1f} GB/s"
    if name.startswith(FLOPS):
        return f"{name.removeprefix(FLOPS)} product", f"{value / 1e12:,.3g} TFLOP/s"
    return "one more launch" if name == LAUNCH else "a call of nothing", f"{value / 1e3:,.2f} µs"


def _share(name: str, value: float, peaks: Peaks | None) -> str:
    """Of what the datasheet promises, where that is known."""
    promised = None
    if peaks is not None and name == BANDWIDTH:
        promised = peaks.dram_bytes_per_s
    if peaks is not None and name.startswith(FLOPS):
        precision = name.removeprefix(FLOPS).replace("bf16", Precision.FP16.value)
        promised = peaks.flops.get(Precision(precision))
    return f"{100 * value / promised:.0f} %" if promised else ""


def _render(device: DeviceCalibration, noises: list[NoiseCalibration]) -> None:
    from harness.cli.formatting import printable
    from harness.cli.writing import plain_table, print_table, write
    from harness.evaluation.state import describe
    from harness.measure.speed_of_light import peaks_for

    console = stdout_console()
    write(console, printable(device.device.name), style="bold")
    if state := describe(device.state):
        write(console, state, style="dim")
    peaks = peaks_for(device.device.name)
    table = plain_table()
    shares = {name: _share(name, value, peaks) for name, value in device.figures.items()}
    for column in ("measured", "", *(["of the datasheet"] if any(shares.values()) else [])):
        table.add_column(column, justify="left" if column == "measured" else "right")
    for name, value in device.figures.items():
        if name != NOOP_SPREAD:
            table.add_row(*_what_and_figure(name, value), *([shares[name]] if any(shares.values()) else []))
    if NOOP_SPREAD in device.figures:
        table.add_row("  half of 10th to 90th percentile", f"{device.figures[NOOP_SPREAD] / 1e3:,.2f} µs")
    print_table(console, table)
    if not noises:
        write(console, "noise between runs: not measured (--board BOARD does)", style="dim")
        return
    table = plain_table()
    for column in ("board", "grid", "runs", "spread s", "δ"):
        table.add_column(column, justify="left" if column in ("board", "grid") else "right")
    for each in noises:
        spread = f"{100 * coefficient_of_variation(each.scores_ns):.3f} %"
        delta = f"{100 * each.noise.delta:.2f} %{'' if _kept(each) else ' (not kept)'}"
        table.add_row(printable(each.key.leaderboard), each.key.grid.value, str(each.noise.runs), spread, delta)
    console.print()
    print_table(console, table)


def _device_document(calibration: DeviceCalibration) -> dict[str, Any]:
    return {
        "device": calibration.device.name,
        "device_kind": calibration.device.kind,
        "created_at": calibration.created_at.isoformat(),
        "figures": dict(calibration.figures),
        "state": {name: dict(reading) for name, reading in calibration.state.items()},
        "versions": dict(calibration.versions),
    }


def _noise_document(calibration: NoiseCalibration) -> dict[str, Any]:
    key, noise = calibration.key, calibration.noise
    return {
        "leaderboard": key.leaderboard,
        "grid": key.grid.value,
        "protocol": key.protocol.value,
        "runs": noise.runs,
        "scores_us": [score_ns / 1e3 for score_ns in calibration.scores_ns],
        "coefficient_of_variation": coefficient_of_variation(calibration.scores_ns),
        "delta": noise.delta,
        "kept": _kept(calibration),
        "created_at": calibration.created_at.isoformat(),
    }

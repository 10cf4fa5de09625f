"""The device's state: readings of this machine, what is said of them, what the store keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_noise import HEADER

from harness.evaluation import state
from harness.evaluation.record import EvaluationOutcome, Status
from harness.store import Store, open_reader

COOL = {
    "sm_clock_mhz": 1980,
    "memory_clock_mhz": 3201,
    "temperature_c": 34,
    "power_w": 118.7,
    "throttling": [],
    "throttled_power_ns": 5_000_000,
    "throttled_thermal_ns": 0,
    "other_processes": [],
    "other_process_count": 0,
}
HOT = {**COOL, "sm_clock_mhz": 1755, "temperature_c": 63, "power_w": 690.2, "throttling": ["power cap"]}


def test_this_machine_as_a_cpu() -> None:
    reading = state.read("cpu")
    assert reading["cores"] == len(os.sched_getaffinity(0))
    assert reading["load_1min"] == pytest.approx(os.getloadavg()[0], abs=1.0)


def test_a_cool_quiet_device_gives_no_warning() -> None:
    assert state.warnings({"before": COOL, "after": {**COOL, "temperature_c": 60}}) == []
    assert state.warnings({}) == []


def test_throttling_is_told_with_its_reasons_and_duration() -> None:
    (warning,) = state.warnings({"before": COOL, "after": {**HOT, "throttled_power_ns": 255_000_000}})
    assert "power cap" in warning
    assert "250 ms of this run" in warning
    # Over by the time of the second look, and still known by the driver's counter.
    (warning,) = state.warnings({"before": COOL, "after": {**COOL, "throttled_thermal_ns": 2_000_000}})
    assert "2 ms" in warning


def test_other_processes_are_told_by_id_where_they_are_known() -> None:
    (warning,) = state.warnings(
        {"before": COOL, "after": {**COOL, "other_processes": [7, 9], "other_process_count": 2}}
    )
    assert warning.startswith("2 other processes compute on the GPU (pid 7, 9)")
    (warning,) = state.warnings({"before": {**COOL, "other_processes": [], "other_process_count": 1}})
    assert warning.startswith("1 other process computes on the GPU:")


def test_a_busy_cpu_is_told_by_its_load_before_the_run() -> None:
    (warning,) = state.warnings({"before": {"load_1min": 8.0, "cores": 8}})
    assert "busy (load 8.0 on 8 cores)" in warning
    assert state.warnings({"before": {"load_1min": 7.9, "cores": 8}, "after": {"load_1min": 9.0, "cores": 8}}) == []


def test_a_warning_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([{"load_1min": 9.0, "cores": 8}, {"load_1min": 9.5, "cores": 8}])
    monkeypatch.setattr(state, "read", lambda kind: next(readings))
    watch = state.StateWatch("cpu")
    assert len(watch.look("before")) == 1
    assert watch.look("after") == []
    assert watch.state["after"] == {"load_1min": 9.5, "cores": 8}


def test_one_line() -> None:
    line = state.describe({"before": COOL, "after": HOT})
    assert line == (
        "SM 1980 → 1755 MHz, memory 3201 MHz, 34 → 63 °C, 118.7 → 690.2 W, throttled by power cap, no other process"
    )
    assert state.describe({}) == ""
    assert state.describe({"before": {"load_1min": 0.4, "cores": 8, "governor": "performance"}}) == (
        "load 0.4 on 8 cores, governor performance"
    )


def test_locked_clocks_by_the_drivers_reasons() -> None:
    assert state.clocks_locked(0x1) is False
    assert state.clocks_locked(0x2) is True
    assert state.clocks_locked(0x4) is None


class NvmlError(Exception):
    pass


class Nvml:
    """A driver that answers some of the questions, as older devices do."""

    NVMLError = NvmlError

    def __init__(self, listed: list[int]) -> None:
        self._listed = listed

    def nvmlDeviceGetClockInfo(self, handle: Any, which: int) -> int:
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return 118_700

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        raise NvmlError("not supported")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int:
        return 0x1 | 0x4

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self._listed]


def test_what_the_driver_does_not_tell_is_left_out() -> None:
    reading = state._ask(Nvml([]), None)
    assert reading == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 118.7,
        "throttling": ["power cap"],
        "other_processes": [],
        "other_process_count": 0,
    }


def test_our_own_processes_are_not_others() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        reading = state._ask(Nvml([os.getpid(), child.pid, 1]), None)
    finally:
        child.communicate(b"\n")
    assert reading["other_processes"] == [1]


def test_ids_of_another_process_table_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_holds_context", lambda: True)
    monkeypatch.setattr(state, "_descendants", lambda: [])
    assert state._others([40001, 40002]) == {"other_process_count": 1}
    monkeypatch.setattr(state, "_descendants", lambda: [12])
    assert state._others([40001, 40002]) == {}, "a worker of ours may be among them"


def test_the_store_keeps_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    seen = {"before": COOL, "after": HOT}
    with Store.open() as store:
        evaluation = store.begin_evaluation(store.add_submission("b", "ada", "k.py", "pass"), HEADER)
        store.finish_evaluation(evaluation, EvaluationOutcome(Status.PASSED, None, state=seen))
    with open_reader() as reader:
        row = reader.evaluation(evaluation)
    assert row is not None
    assert row.outcome.state == seen

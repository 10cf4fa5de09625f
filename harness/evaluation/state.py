"""The state of the device around an evaluation: clocks, temperature, power, what lowers the clocks, who else uses it.

A reading is a plain mapping with units in its names, so that the store keeps it as it is; what a machine does not tell
is left out. No torch; the driver is asked through nvidia-ml-py, and never raises.

On CUDA: `sm_clock_mhz`, `sm_clock_max_mhz`, `memory_clock_mhz`, `temperature_c`, `power_w`, `power_limit_w`,
`throttling` (names of what lowers the clocks now), `throttled_power_ns` and `throttled_thermal_ns` (ever since the
driver was loaded), `other_processes` (process ids), `other_process_count`, `memory_used_bytes`.
On a CPU: `load_1min`, `cores`, `governor`, `clock_mhz`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

Reading = Mapping[str, Any]
State = Mapping[str, Reading]
"""`before` and `after`, each a reading."""

# NVML's reasons for a lowered clock, by bit (nvml.h, nvmlClocksEventReasons); idling and the user's settings aside.
THROTTLING = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown by software",
    0x40: "thermal slowdown by hardware",
    0x80: "power brake",
}
IDLE, SETTING = 0x1, 0x2
"""NVML's reasons `GpuIdle` and `ApplicationsClocksSetting`."""
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_POWER_POLICY, _THERMAL_POLICY = 0, 1
_CPUFREQ = Path("/sys/devices/system/cpu/cpu0/cpufreq")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def throttling(mask: int) -> list[str]:
    """The names of the reasons in NVML's mask that slow a kernel down."""
    return [name for bit, name in THROTTLING.items() if mask & bit]


def clocks_locked(mask: int) -> bool | None:
    """Whether the SM clock is held in place, by NVML's mask of reasons: an idle device whose clock falls is not, one
    whose clock is bounded by a setting is. None where neither shows."""
    return False if mask & IDLE else True if mask & SETTING else None


def read(kind: str) -> Reading:
    """The state now of this process's device; `kind` is that of `Device.kind`. Empty where nothing can be read."""
    return _read_gpu() if kind == "cuda" else _read_cpu()


def _read_cpu() -> Reading:
    found: dict[str, Any] = {"cores": _cores()}
    with suppress(OSError):
        found["load_1min"] = round(os.getloadavg()[0], 2)
    for name, file, convert in (
        ("governor", "scaling_governor", str),
        ("clock_mhz", "scaling_cur_freq", lambda khz: round(int(khz) / 1000)),
    ):
        try:
            found[name] = convert((_CPUFREQ / file).read_text().strip())
        except (OSError, ValueError):
            continue
    if "clock_mhz" not in found:
        found.update(_clock_of_cpuinfo())
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _clock_of_cpuinfo() -> dict[str, Any]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            clocks = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    except (OSError, ValueError):
        return {}
    return {"clock_mhz": round(sum(clocks) / len(clocks))} if clocks else {}


def _read_gpu() -> Reading:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, no permission: then nothing is known
        return {}
    try:
        handle = _handle(pynvml)
        return {} if handle is None else _ask(pynvml, handle)
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: Any) -> Any:
    """The device that CUDA shows this process first."""
    first = os.environ.get(VISIBLE, "0").split(",")[0].strip()
    try:
        if first.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(first))
        return nvml.nvmlDeviceGetHandleByUUID(first)
    except nvml.NVMLError:
        return None


def _ask(nvml: Any, handle: Any) -> Reading:
    def ask(function: str, *arguments: Any, of: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """The answer, or None where this device or driver does not give it."""
        try:
            return of(getattr(nvml, function)(handle, *arguments))
        except (nvml.NVMLError, AttributeError):
            return None

    def watts(milliwatts: int) -> float:
        return milliwatts / 1000

    def violation_ns(answer: Any) -> int:
        return int(answer.violationTime)

    found = {
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", _SM_CLOCK),
        "sm_clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", _SM_CLOCK),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
        "temperature_c": ask("nvmlDeviceGetTemperature", 0),
        "power_w": ask("nvmlDeviceGetPowerUsage", of=watts),
        "power_limit_w": ask("nvmlDeviceGetEnforcedPowerLimit", of=watts),
        "throttling": ask("nvmlDeviceGetCurrentClocksThrottleReasons", of=throttling),
        "throttled_power_ns": ask("nvmlDeviceGetViolationStatus", _POWER_POLICY, of=violation_ns),
        "throttled_thermal_ns": ask("nvmlDeviceGetViolationStatus", _THERMAL_POLICY, of=violation_ns),
        "memory_used_bytes": ask("nvmlDeviceGetMemoryInfo", of=lambda memory: int(memory.used)),
    }
    listed = ask("nvmlDeviceGetComputeRunningProcesses", of=lambda each: [process.pid for process in each])
    if listed is not None:
        found.update(_others(listed))
    return {name: value for name, value in found.items() if value is not None}


def _others(listed: list[int]) -> dict[str, Any]:
    """Who of the processes that the driver lists is not ours.

    In a container the driver may count by the host's process ids: then we, who hold a context, are not on its list by
    our own id. What is listed is told apart by number only, and only as far as no worker of ours is among it.
    """
    ours = {os.getpid(), *_descendants()}
    if os.getpid() in listed or not _holds_context():
        others = [pid for pid in listed if pid not in ours]
        return {"other_processes": others, "other_process_count": len(others)}
    if len(ours) > 1 or not listed:
        return {}
    return {"other_process_count": len(listed) - 1}


def _descendants() -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process().children(recursive=True)]


def _holds_context() -> bool:
    """Whether this process has the device open for computing, by the driver that torch has loaded, if it has."""
    import ctypes

    try:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    flags, active = ctypes.c_uint(), ctypes.c_int()
    failed = library.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    return not failed and bool(active.value)


class StateWatch:
    """Looks at one device before and after an evaluation; `state` is what was seen."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._told: set[str] = set()
        self.state: dict[str, Reading] = {}

    def look(self, when: str) -> list[str]:
        """Read the state `before` or `after`; the warnings that this adds."""
        self.state[when] = read(self._kind)
        fresh = [warning for warning in warnings(self.state) if warning not in self._told]
        self._told.update(fresh)
        return fresh


def warnings(state: State) -> list[str]:
    """What in a state, of which `after` may be missing yet, makes the figures doubtful; sentences for a person."""
    before, after = state.get("before", {}), state.get("after", {})
    found = []
    count = max(reading.get("other_process_count", 0) for reading in (before, after))
    if count:
        pids = sorted({*before.get("other_processes", ()), *after.get("other_processes", ())})
        who = f" (pid {', '.join(map(str, pids))})" if pids else ""
        verb = "other process computes" if count == 1 else "other processes compute"
        found.append(f"{count} {verb} on the GPU{who}: the figures are disturbed")
    reasons = sorted({*before.get("throttling", ()), *after.get("throttling", ())})
    throttled_ms = _throttled_ns(before, after) / 1e6
    if reasons or throttled_ms >= 1:
        by = f" ({', '.join(reasons)})" if reasons else ""
        for_ms = f", for {throttled_ms:,.0f} ms of this run" if throttled_ms >= 1 else ""
        found.append(f"the GPU lowered its clocks{by}{for_ms}: it is slower than when cool")
    if busy(before):
        load, cores = before["load_1min"], before["cores"]
        found.append(f"this machine is busy (load {load:.1f} on {cores} cores): the figures are disturbed")
    return found


def busy(reading: Reading) -> bool:
    """Whether as many processes wanted to run as there are cores."""
    return "load_1min" in reading and bool(reading["load_1min"] >= reading["cores"])


def _throttled_ns(before: Reading, after: Reading) -> int:
    return sum(
        max(0, after[name] - before[name])
        for name in ("throttled_power_ns", "throttled_thermal_ns")
        if name in before and name in after
    )


def describe(state: State) -> str:
    """One line, e.g. `SM 1980 → 1755 MHz, memory 3201 MHz, 41 → 63 °C, 120 → 610 W, throttled by power cap`; empty for
    a state of which nothing is known."""
    before, after = state.get("before", {}), state.get("after", {})
    parts = [
        _change(before, after, "sm_clock_mhz", "SM {} MHz"),
        _change(before, after, "memory_clock_mhz", "memory {} MHz"),
        _change(before, after, "temperature_c", "{} °C"),
        _change(before, after, "power_w", "{} W"),
        _change(before, after, "load_1min", f"load {{}} on {before.get('cores', after.get('cores', '?'))} cores"),
        _change(before, after, "clock_mhz", "clock {} MHz"),
        f"governor {before['governor']}" if "governor" in before else "",
    ]
    reasons = sorted({*before.get("throttling", ()), *after.get("throttling", ())})
    if "throttling" in before or "throttling" in after:
        parts.append(f"throttled by {', '.join(reasons)}" if reasons else "not throttled")
    counts = [r["other_process_count"] for r in (before, after) if "other_process_count" in r]
    if counts:
        parts.append(f"{max(counts)} other processes" if max(counts) else "no other process")
    return ", ".join(part for part in parts if part)


def _change(before: Reading, after: Reading, name: str, form: str) -> str:
    values = [f"{reading[name]:.4g}" for reading in (before, after) if name in reading]
    return form.format(" → ".join(dict.fromkeys(values))) if values else ""

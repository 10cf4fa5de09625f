"""The GPU as its driver reports it (NVML), and as torch can use it."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from harness.doctor.advice import install
from harness.doctor.findings import Detail, Finding, note, ok, problem
from harness.doctor.machine import gigabytes
from harness.evaluation.state import clocks_locked, throttling

T = TypeVar("T")

OLDEST_TORCH, FIRST_TORCH_TOO_NEW = (2, 11), (2, 14)
TORCH = "'torch>=2.11,<2.14'"
OTHERS_MEMORY_BYTES = 1 << 30
"""Memory in use by others that is worth a word."""


def by_driver() -> Iterator[Finding]:
    """Every GPU that the driver knows: memory, other users, clocks, what lowers them."""
    try:
        import pynvml
    except ImportError:
        yield note("GPU", "not looked for: the package nvidia-ml-py is missing", install("nvidia-ml-py"))
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        text = f"no NVIDIA GPU, or no driver ({error})"
        yield note("GPU", text, "Kernels are checked and timed on the processor, on each board's CPU grid.")
        return
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        count = pynvml.nvmlDeviceGetCount()
        if count == 0:
            yield note("GPU", f"driver {driver}, and no GPU", "Kernels run on the processor, on each board's CPU grid.")
        for index in range(count):
            yield from _device(pynvml, index, driver)
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, index: int, driver: str) -> Iterator[Finding]:
    area = f"GPU {index}"
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = _text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError as error:
        yield problem(area, f"the driver can't open it: {error}", "nvidia-smi says more; a reboot may be needed.")
        return

    def ask(function: str, *arguments: Any) -> Any:
        """The answer, or None where this device or driver does not give it."""
        return _or_none(nvml.NVMLError, lambda: getattr(nvml, function)(handle, *arguments))

    memory = ask("nvmlDeviceGetMemoryInfo")
    processes = [each.pid for each in ask("nvmlDeviceGetComputeRunningProcesses") or [] if each.pid != os.getpid()]
    clock, most_clock = ask("nvmlDeviceGetClockInfo", 1), ask("nvmlDeviceGetMaxClockInfo", 1)  # 1: the SM clock
    memory_clock = ask("nvmlDeviceGetClockInfo", 2)
    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    persistence = ask("nvmlDeviceGetPersistenceMode")
    details: dict[str, Detail] = {
        "name": name,
        "driver": driver,
        "memory_used_bytes": None if memory is None else memory.used,
        "memory_total_bytes": None if memory is None else memory.total,
        "other_processes": processes,
        "sm_clock_mhz": clock,
        "sm_clock_max_mhz": most_clock,
        "memory_clock_mhz": memory_clock,
        "throttling": None if reasons is None else throttling(reasons),
        "clocks_locked": None if reasons is None else clocks_locked(reasons),
        "persistence": None if persistence is None else bool(persistence),
        "temperature_c": ask("nvmlDeviceGetTemperature", 0),
        "power_w": _watts(ask("nvmlDeviceGetPowerUsage")),
    }
    used = f", {gigabytes(memory.used)} of {gigabytes(memory.total)} in use" if memory is not None else ""
    clocks = f", SM clock {clock} of {most_clock} MHz" if clock is not None and most_clock is not None else ""
    yield ok(area, f"{name}, driver {driver}{used}{clocks}", **details)
    if processes:
        who = f"{len(processes)} other {'process computes' if len(processes) == 1 else 'processes compute'} on it"
        yield note(area, f"{who} (pid {', '.join(map(str, processes))})", "They disturb every figure: end them first.")
    elif memory is not None and memory.used > OTHERS_MEMORY_BYTES:
        advice = "Another container may be using it; nvidia-smi says who where it can see them."
        yield note(area, f"{gigabytes(memory.used)} are in use, by no process that can be seen here", advice)
    if reasons is not None and throttling(reasons):
        advice = "Figures are lower than the device gives when cool. Wait, or mend cooling or power limit."
        yield note(area, f"clocks are lowered: {', '.join(throttling(reasons))}", advice)
    if reasons is not None and clocks_locked(reasons) is False:
        text = "clocks are not locked: they fall when it idles, and the first calls after that are slower"
        yield note(area, text, f"To hold them: sudo nvidia-smi -i {index} -lgc MHZ,MHZ (undone by -rgc).")
    if persistence is not None and not persistence:
        yield note(area, "persistence mode is off: the first call wakes the driver", "sudo nvidia-smi -pm 1")


def _or_none(error: type[Exception], call: Callable[[], T]) -> T | None:
    try:
        return call()
    except (error, AttributeError):
        return None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def by_torch() -> Iterator[Finding]:
    """torch's version and build, and whether it reaches the GPU. Imports torch, which takes seconds."""
    cpu_build = f"{install(TORCH)} (add torch's CPU package index for a small build without CUDA)"
    try:
        installed = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        yield problem("torch", "it is not installed; no kernel can be checked", cpu_build, blocks=True)
        return
    try:
        import torch
    except (
        Exception
    ) as error:  # a broken installation raises anything: OSError for a library, ImportError, RuntimeError
        text = f"{installed} is installed and does not load: {type(error).__name__}: {error}"
        yield problem("torch", text, f"Install it again: {install(f'--force-reinstall {TORCH}')}", blocks=True)
        return
    version, cuda = str(torch.__version__), torch.version.cuda
    details: dict[str, Detail] = {"version": version, "cuda": cuda, "device_count": torch.cuda.device_count()}
    built = (
        f"built for CUDA {cuda}"
        if cuda
        else f"built for ROCm {torch.version.hip}"
        if torch.version.hip
        else "CPU build"
    )
    number = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if OLDEST_TORCH <= number < FIRST_TORCH_TOO_NEW:
        yield ok("torch", f"{version}, {built}", **details)
    else:
        yield note("torch", f"{version}, {built}; the harness is tested with 2.11 to 2.13", cpu_build, **details)
    yield from _reach(torch, cuda)


def _reach(torch: Any, cuda: str | None) -> Iterator[Finding]:
    has_driver = os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")
    if torch.cuda.is_available():
        names = []
        for index in range(torch.cuda.device_count()):
            try:
                torch.zeros(1, device=f"cuda:{index}").add_(1).cpu()
                names.append(torch.cuda.get_device_name(index))
            except Exception as error:
                on = f" on device {index}" if torch.cuda.device_count() > 1 else ""
                text = f"a first kernel fails{on}: {type(error).__name__}: {str(error).splitlines()[0]}"
                advice = "The driver may be too old for torch's CUDA, or the device in an error state."
                yield problem("CUDA", text, advice)
        if names:
            which = "; an evaluation uses one of them that is free" if len(names) > 1 else ""
            yield ok("CUDA", f"torch runs on {', '.join(names)}{which}", devices=names)
    elif has_driver and not cuda:
        again = install(f"--force-reinstall {TORCH}")
        advice = f"{again}, from the index of a CUDA version that the driver supports."
        yield problem("CUDA", "this machine has an NVIDIA driver, and torch is a build without CUDA", advice)
    elif has_driver:
        advice = "Is CUDA_VISIBLE_DEVICES empty? Is the driver older than torch's CUDA? nvidia-smi says."
        yield problem("CUDA", f"this machine has an NVIDIA driver, and torch (CUDA {cuda}) finds no device", advice)

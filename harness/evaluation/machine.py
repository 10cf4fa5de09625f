"""The machine at hand: its device, the versions of what runs on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from functools import cache

import torch

from harness import __version__
from harness.boards.board import GridName
from harness.cuda.driver import driver_version
from harness.evaluation.record import Device

PACKAGES = ("torch", "triton", "helion", "nvidia-cutlass-dsl", "numpy")


@cache
def device() -> Device:
    """The device an evaluation here runs on: the first CUDA device, else the CPU."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        details: dict[str, str | int | float] = {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "driver": driver_version(),
        }
        return Device("cuda", properties.name, details)
    return Device("cpu", cpu_name(), {"cores": os.cpu_count() or 1, "threads": torch.get_num_threads()})


def cpu_name() -> str:
    """The processor's model as the kernel names it, else its architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def grid_name() -> GridName:
    """The grid that this machine runs when none is asked for."""
    return GridName.FULL if device().kind == "cuda" else GridName.CPU


@cache
def versions() -> dict[str, str]:
    """What a result depends on, by name."""
    found = {"harness": __version__, "python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    found["torch"] = torch.__version__  # with its build, e.g. 2.13.0+cpu
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found

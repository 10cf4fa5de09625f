"""A driver for Triton that answers for the asked target, loads nothing and launches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.compiling.architectures import Architecture
from harness.compiling.worker.collect import Collector
from harness.compiling.worker.tensors import DEVICE, mark_unknown


class _Utils:
    """Stands for the module that Triton builds against libcuda."""

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        return None, None, 0, 0, self._architecture.threads_per_block

    def unload_module(self, *args: Any) -> None:
        pass

    def get_device_properties(self, device: int) -> dict[str, int]:
        facts = self._architecture.device
        return {
            "max_shared_mem": self._architecture.shared_per_block,
            "max_num_regs": self._architecture.registers_per_multiprocessor,
            "multiprocessor_count": facts.multiprocessors,
            "warpSize": 32,
            "sm_clock_rate": facts.clock_khz,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": facts.memory_bus_bits,
        }

    def cuOccupancyMaxActiveClusters(self, *args: Any) -> int:
        return self._architecture.device.multiprocessors

    def set_printf_fifo_size(self, size: int) -> None:
        pass

    def fill_tma_descriptor_tiled(self, *args: Any) -> object:
        return object()

    fill_tma_descriptor_im2col = fill_tma_descriptor = fill_tma_descriptor_tiled


class CompileOnlyDriver:
    """What `triton.runtime.driver.active` must answer."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.utils = _Utils(collector.architecture)
        self.binary_ext = "cubin"

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._collector.architecture.number, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: Any = 0) -> int:
        return 0

    def get_device_capability(self, device: Any = 0) -> tuple[int, int]:
        return self._collector.architecture.capability

    def get_active_torch_device(self) -> torch.device:
        return DEVICE

    def get_device_interface(self) -> Any:
        return torch.cuda

    def map_python_to_cpp_type(self, kind: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(kind))

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1, dtype=torch.int, device="cuda")

    def clear_cache(self, cache: Any) -> None:
        pass

    def get_benchmarker(self) -> Callable[..., Any]:
        return run_once

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return _Launcher(self._collector, metadata)


class _Launcher:
    """Counts a launch where the real one would make it."""

    def __init__(self, collector: Collector, metadata: Any) -> None:
        self._collector, self._metadata = collector, metadata

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, *rest: Any) -> None:
        metadata = self._metadata
        if getattr(metadata, "global_scratch_size", 0) > 0:
            # As the real launcher does, so that a missing allocator fails here as it would there.
            from triton.runtime import _allocation

            allocator: Any = _allocation._allocator
            allocate = allocator.get() if hasattr(allocator, "get") else allocator
            size = x * y * z * getattr(metadata, "num_ctas", 1) * metadata.global_scratch_size
            allocate(size, metadata.global_scratch_align, stream)
        for argument in rest[4:] if len(rest) >= 4 else rest:
            _mark(argument)
        self._collector.launched(metadata.hash)


def _mark(argument: Any) -> None:
    """Note that a kernel may write where an argument points to."""
    if isinstance(argument, torch.Tensor):
        mark_unknown(argument)
    elif isinstance(getattr(argument, "base", None), torch.Tensor):  # a tensor descriptor
        mark_unknown(argument.base)
    elif isinstance(argument, tuple | list):
        for each in argument:
            _mark(each)


def run_once(
    function: Callable[[], Any], *args: Any, quantiles: Any = None, return_mode: str = "mean", **kw: Any
) -> Any:
    """Stands for a benchmark: the call reaches the compiler, and every candidate takes a millisecond."""
    function()
    if quantiles is not None:
        return [1.0] * len(quantiles) if len(quantiles) > 1 else 1.0
    return [1.0] if return_mode == "all" else 1.0

"""CUDA C++ at run time, `torch.cuda._compile_kernel`: compiled for the device, its launches counted."""

from __future__ import annotations

import functools
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from harness.compiling.cubin import kernels_of
from harness.compiling.nvrtc import compile_nvrtc
from harness.compiling.record import Dsl
from harness.compiling.worker.collect import Collector
from harness.compiling.worker.cuda_hooks import CudaBuildError, add_kernels, base_name, compile_for
from harness.compiling.worker.tensors import mark_unknown


def install(collector: Collector) -> None:
    """Stop run-time builds at the compiler."""
    torch.cuda._compile_kernel = functools.partial(_compile_kernel, collector)
    torch.cuda.compile_kernel = torch.cuda._compile_kernel  # type: ignore[attr-defined]
    torch.cuda._utils._nvrtc_compile = functools.partial(_nvrtc_compile, collector)


class _RuntimeKernel:
    """What torch.cuda._compile_kernel returns: a launch is counted, with its block and shared memory."""

    def __init__(self, collector: Collector, key: str) -> None:
        self._collector, self._key = collector, key
        self._most_shared = collector.architecture.shared_per_block_default

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        self._most_shared = shared_mem_bytes

    def __call__(
        self,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        args: Any = None,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        for argument in args or []:
            if isinstance(argument, torch.Tensor):
                mark_unknown(argument)
        threads = 1
        for extent in block:
            threads *= extent
        self._collector.launched(self._key, threads=threads, dynamic_shared_bytes=shared_mem)


def _compile_kernel(
    collector: Collector,
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: Any = None,
    nvcc_options: Any = None,
    **options: Any,
) -> _RuntimeKernel:
    return _RuntimeKernel(collector, _build(collector, kernel_source, kernel_name, cuda_include_dirs, nvcc_options))


def _nvrtc_compile(
    collector: Collector,
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: Any = None,
    nvcc_options: Any = None,
    **options: Any,
) -> tuple[bytes, str]:
    key = _build(collector, kernel_source, kernel_name, cuda_include_dirs, nvcc_options)
    kernel = collector.kernels[key]
    return kernel.cubin, kernel.entry


def _build(collector: Collector, text: str, name: str, include_dirs: Any, options: Any) -> str:
    """A run-time source to a cubin, by nvcc or NVRTC; the key of its kernel."""
    collector.dsls_seen.add("nvrtc")
    started = time.perf_counter()
    includes = [Path(each) for each in include_dirs or []]
    flags = [each.decode() if isinstance(each, bytes) else each for each in options or []]
    with tempfile.TemporaryDirectory(prefix="rtc-") as folder:
        path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}.cu"
        # A template's instance is only made where it is named.
        path.write_text(text + (f"\nstatic auto harness_instance = &{name};\n" if "<" in name else ""))
        code = compile_for(
            collector,
            path,
            options=[*flags, "-std=c++17"],
            include_dirs=includes,
            otherwise=lambda: compile_nvrtc(text, name, collector.architecture.name, flags, includes),
        )
        wanted = name.partition("<")[0].rpartition("::")[2].strip()
        symbols = [each.name for each in kernels_of(code.cubin) if base_name(each.name) == wanted]
        if not symbols:
            raise CudaBuildError(f"the source defines no kernel {name}")
        (key, *_) = add_kernels(collector, path, code, Dsl.NVRTC, only=symbols[0], text=text)
    collector.kernels[key].compile_s = time.perf_counter() - started
    return key

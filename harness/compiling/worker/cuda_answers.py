"""What `torch.cuda` answers for a device that is not here: the asked architecture's figures, and streams that do
nothing. Installed once in a process that holds one submission."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from harness.compiling.architectures import Architecture
from harness.compiling.record import ProblemKind
from harness.compiling.worker.collect import Collector
from harness.compiling.worker.guard import allow_cuda_devices
from harness.compiling.worker.tensors import DEVICE

CUDA_VERSION = "13.0"
"""What `torch.version.cuda` says where this build has no CUDA."""


def properties(architecture: Architecture) -> SimpleNamespace:
    """The fields of `torch.cuda.get_device_properties`."""
    facts = architecture.device
    return SimpleNamespace(
        name=facts.product,
        major=architecture.capability[0],
        minor=architecture.capability[1],
        total_memory=facts.memory_bytes,
        multi_processor_count=facts.multiprocessors,
        L2_cache_size=facts.l2_bytes,
        clock_rate=facts.clock_khz,
        memory_bus_width=facts.memory_bus_bits,
        warp_size=32,
        max_threads_per_block=architecture.threads_per_block,
        max_threads_per_multi_processor=architecture.threads_per_multiprocessor,
        regs_per_multiprocessor=architecture.registers_per_multiprocessor,
        shared_memory_per_block=architecture.shared_per_block_default,
        shared_memory_per_block_optin=architecture.shared_per_block,
        shared_memory_per_multiprocessor=architecture.shared_per_multiprocessor,
        is_integrated=0,
        is_multi_gpu_board=0,
        pci_bus_id=1,
        pci_device_id=0,
        pci_domain_id=0,
        uuid="00000000-0000-0000-0000-000000000000",
        gcnArchName="",
    )


class Stream:
    """A stream on which nothing runs."""

    _count = 0

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        Stream._count += 1
        self.cuda_stream = kwargs.get("stream_ptr", Stream._count)
        self.stream_id, self.priority = self.cuda_stream, priority
        self.device, self.device_index, self.device_type = DEVICE, 0, 1

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event if event is not None else Event()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.cuda_stream)


class Event:
    """An event that has always happened; two of them are a millisecond apart."""

    cuda_event = 1

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self.device = DEVICE

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Any) -> float:
        return 1.0


class CUDAGraph:
    """A graph whose capture runs the code (so that its launches reach the compiler) and whose replay does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    capture_begin = capture_end = replay = reset = debug_dump = enable_debug_mode = instantiate = _nothing

    def pool(self) -> tuple[int, int]:
        return (0, 0)


@contextlib.contextmanager
def _graph(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


class _Context:
    """`torch.cuda.device(0)`, `torch.cuda.stream(s)` and their like."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Context:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


_Generator = torch.Generator


class _GeneratorType(type):
    """`torch.Generator` for isinstance, a CPU generator for every call."""

    def __call__(cls, device: Any = None) -> Any:
        return _Generator("cpu")

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Generator)


class Generator(metaclass=_GeneratorType):
    pass


def install(collector: Collector) -> None:
    """Make `torch.cuda` answer for the collector's architecture. Can't be undone."""
    allow_cuda_devices()
    architecture = collector.architecture
    told = properties(architecture)
    default = Stream(stream_ptr=0)
    free = told.total_memory - (1 << 30)

    def answer(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value  # a new one each time: torch's tracer refuses one function of two names

    answers: dict[str, Any] = {
        "is_available": answer(True),
        "is_initialized": answer(True),
        "device_count": answer(1),
        "current_device": answer(0),
        "get_device_name": answer(told.name),
        "get_device_capability": answer(architecture.capability),
        "get_device_properties": answer(told),
        "get_arch_list": answer([architecture.name]),
        "mem_get_info": answer((free, told.total_memory)),
        "is_bf16_supported": answer(True),
        "is_tf32_supported": answer(True),
        "current_stream": answer(default),
        "default_stream": answer(default),
        "is_current_stream_capturing": answer(False),
        "current_blas_handle": answer(1),
        "can_device_access_peer": answer(False),
        "Stream": Stream,
        "Event": Event,
        "ExternalStream": lambda pointer, *args, **kwargs: Stream(stream_ptr=pointer),
        "CUDAGraph": CUDAGraph,
        "graph": _graph,
        "graph_pool_handle": answer((0, 0)),
        "make_graphed_callables": lambda callables, *args, **kwargs: callables,
        "stream": _Context,
        "StreamContext": _Context,
        "device": _Context,
        "device_of": _Context,
        "_DeviceGuard": _Context,
        "get_sync_debug_mode": answer(0),
        "utilization": answer(0),
        "manual_seed": lambda seed: torch.random.default_generator.manual_seed(seed),
        "manual_seed_all": lambda seed: torch.random.default_generator.manual_seed(seed),
        "initial_seed": lambda: torch.random.default_generator.initial_seed(),
    }
    for name in [
        "init",
        "_lazy_init",
        "_lazy_call",
        "set_device",
        "synchronize",
        "empty_cache",
        "ipc_collect",
        "set_stream",
        "reset_peak_memory_stats",
        "reset_max_memory_allocated",
        "reset_accumulated_memory_stats",
        "set_per_process_memory_fraction",
        "set_sync_debug_mode",
    ]:
        answers[name] = answer(None)
    for name in [
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "memory_cached",
        "max_memory_cached",
    ]:
        answers[name] = answer(0)
    for name, value in answers.items():
        setattr(torch.cuda, name, value)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, answer(None))
    torch.cuda.nvtx.range = _Context  # type: ignore[assignment]
    torch.cuda.default_generators = (torch.random.default_generator,)
    if torch.version.cuda is None:
        torch.version.cuda = CUDA_VERSION
    torch.Generator = Generator  # type: ignore[misc, assignment]
    for name, value in (
        ("_cuda_getCurrentRawStream", answer(0)),
        ("_cuda_getDevice", answer(0)),
        ("_cuda_getDeviceCount", answer(1)),
    ):
        setattr(torch._C, name, value)
    _install_accelerator(default)
    _install_compile(collector)


def _install_accelerator(default: Stream) -> None:
    """`torch.accelerator`, the device-neutral names of the same things."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    accelerator.is_available = lambda: True
    accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
    accelerator.device_count = lambda: 1
    accelerator.synchronize = lambda *args: None
    for name, value in (
        ("current_device_index", 0),
        ("current_device_idx", 0),
        ("current_stream", default),
        ("set_stream", None),
        ("set_device_index", None),
        ("set_device_idx", None),
    ):
        setattr(accelerator, name, lambda *args, _value=value, **kwargs: _value)


def _install_compile(collector: Collector) -> None:
    """torch.compile's own kernels are Inductor's: the function runs as written, and the result says so."""

    def compile_(model: Any = None, **kwargs: Any) -> Any:
        if model is None:
            return lambda function: compile_(function, **kwargs)
        collector.problem(
            ProblemKind.NOT_FOLLOWED,
            "torch.compile: the kernels that Inductor would make are not compiled; the function ran as written",
            source=collector.user_line(),
        )
        return model

    torch.compile = compile_

"""CuTe DSL: compiled for the asked architecture by its own settings (`CUTE_DSL_ARCH`, `CUTE_DSL_KEEP`), never launched.

Its PTX and cubin are what the compiled function keeps. Block size comes from the cubin; dynamic shared memory and
cluster are constants of the host code that the DSL generates, read from its lowered MLIR.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from harness.compiling.cubin import kernels_of
from harness.compiling.record import Dsl, ProblemKind, SourceLine
from harness.compiling.worker.collect import Collector, FoundKernel, digest
from harness.compiling.worker.tensors import mark_exposed_unknown

_NAME = re.compile(
    r"kernel_cutlass_(?P<name>.+?)(?:_(?:tensorptr|ptr|TiledMMA|TiledCopy|CopyAtom|MMAAtom|object_at)|_{2,}|_\d+$)"
)
_FUNCTION = re.compile(r"^  llvm\.func @(?P<name>\S+?)\(", re.MULTILINE)
_CONSTANT = re.compile(r"(%\S+) = llvm\.mlir\.constant\((-?\d+) : i\d+\)")
_CONFIG = "!llvm.struct<(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32)>"
_GEP = re.compile(r"(%\S+) = llvm\.getelementptr %\S+\[(?P<path>[\d, ]+)\] : .*?, (?P<type>!llvm\.struct<\(.*\)>)\s*$")
_STORE = re.compile(r"llvm\.store (%\S+), (%\S+) : i\d+")
_ADDRESS = re.compile(r"(%\S+) = llvm\.mlir\.addressof @\"?(?P<symbol>[^\" ]+)\"?")
_LOAD = re.compile(r"(%\S+) = llvm\.load (%\S+) : !llvm\.ptr -> !llvm\.ptr")
_LAUNCH = re.compile(r"llvm\.call @_?cudaLaunchKernelEx\w*\(%\S+, (%[^,\s]+),")
_TRIPLE = "!llvm.struct<(i32, i32, i32)>"


def prepare(collector: Collector) -> None:
    """Settings that the DSL reads when it is imported."""
    os.environ["CUTE_DSL_ARCH"] = collector.architecture.name
    os.environ["CUTE_DSL_KEEP"] = "ptx,cubin"
    os.environ["CUTE_DSL_DUMP_DIR"] = tempfile.mkdtemp(prefix="cute-")
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"


def install(collector: Collector) -> None:
    """Stop launches, take kernels, and answer what the DSL asks the driver."""
    from cutlass.base_dsl import jit_executor
    from cutlass.base_dsl.runtime import cuda as runtime

    compiled: Any = jit_executor.JitCompiledFunction
    compiled.__init__ = _taken(collector, compiled.__init__)

    def launch(self: Any, *args: Any, **kwargs: Any) -> int:
        return _launched(collector, self)

    _time_compiler()
    compiled.run_compiled_program = launch
    compiled.to = lambda self, device=None: _Executor(collector, self)
    try:
        from cutlass.cutlass_dsl import cuda_jit_executor

        cuda: Any = cuda_jit_executor.CudaDialectJitCompiledFunction
        cuda.to = compiled.to
    except ImportError:
        pass
    try:
        from cutlass.cutlass_dsl import tvm_ffi_provider as provider
    except ImportError:
        pass
    else:
        for name in ("TVMFFIJitCompiledFunction", "TVMFFIJitCompiledFunctionWithKwargs"):
            getattr(provider, name).__call__ = launch
    architecture = collector.architecture
    facts = architecture.device
    for name, value in {
        "get_compute_capability_major_minor": architecture.capability,
        "get_current_device": 0,
        "get_device": 0,
        "initialize_cuda_context": None,
        "default_stream": SimpleNamespace(getPtr=lambda: 0),
        "get_driver_version": 13000,
        "stream_sync": None,
    }.items():
        if hasattr(runtime, name):
            setattr(runtime, name, lambda *args, _value=value, **kwargs: _value)
    _install_hardware_info(facts.multiprocessors, facts.l2_bytes)


def _install_hardware_info(multiprocessors: int, l2_bytes: int) -> None:
    """The most clusters at once is an upper bound: the driver also knows which parts of the die are off."""
    import cutlass.utils
    from cutlass.utils import hardware_info

    class HardwareInfo:
        def __init__(self, device_id: int = 0) -> None:
            self.device_id = device_id

        def get_max_active_clusters(self, cluster_size: int, stream: Any = None) -> int:
            return max(1, multiprocessors // cluster_size)

        def get_l2_cache_size_in_bytes(self) -> int:
            return l2_bytes

        def get_device_multiprocessor_count(self) -> int:
            return multiprocessors

    for module in (hardware_info, cutlass.utils):
        setattr(module, "HardwareInfo", HardwareInfo)  # noqa: B010  a plain assignment is an error to type checkers


class _Executor:
    """A compiled function bound to a device."""

    def __init__(self, collector: Collector, function: Any) -> None:
        self._collector, self._function = collector, function

    def __call__(self, *args: Any, **kwargs: Any) -> int:
        return _launched(self._collector, self._function)

    def run_compiled_program(self, args: Any) -> int:
        return _launched(self._collector, self._function)

    def generate_execution_args(self, *args: Any, **kwargs: Any) -> Any:
        return self._function.generate_execution_args(*args, **kwargs)


def _launched(collector: Collector, function: Any) -> int:
    mark_exposed_unknown()
    for key in getattr(function, "_harness_keys", ()):
        collector.launched(key)
    return 0


_seconds = 0.0
"""What the latest call of the DSL's compiler took."""


def _time_compiler() -> None:
    from cutlass.base_dsl import compiler

    for name in ("compile", "compile_and_jit"):
        method = getattr(compiler.Compiler, name)

        @functools.wraps(method)
        def call(*args: Any, _method: Any = method, **kwargs: Any) -> Any:
            global _seconds
            started = time.perf_counter()
            try:
                return _method(*args, **kwargs)
            finally:
                _seconds = time.perf_counter() - started

        setattr(compiler.Compiler, name, call)


def _taken(collector: Collector, init: Any) -> Any:
    """A compiled function is made when its compilation is done; take its kernels then."""

    def taken(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            self._harness_keys = _add(collector, self)
        except Exception as error:
            text = f"a kernel that CuTe DSL compiled can't be read: {type(error).__name__}: {error}"
            collector.problem(ProblemKind.NOT_FOLLOWED, text, source=collector.user_line())

    return taken


def _add(collector: Collector, function: Any) -> list[str]:
    artifacts = function.artifacts
    cubin = artifacts.CUBIN if artifacts is not None else None
    if not isinstance(cubin, bytes):
        if getattr(function, "kernel_info", None):
            text = "CuTe DSL kept no cubin of this function"
            collector.problem(ProblemKind.NOT_FOLLOWED, text, source=collector.user_line())
        return []
    told = launch_configurations(str(function.ir_module))
    keys = []
    for each in kernels_of(cubin):
        launch = told.get(each.name, LaunchConfiguration())
        name, rest = short_name(each.name)
        key = digest(cubin, each.name, launch)
        kernel = FoundKernel(
            name=name,
            entry=each.name,
            dsl=Dsl.CUTE,
            cubin=cubin,
            ptx=artifacts.PTX or "",
            specialisation=rest,
            source=_line_of_kernel(collector, name),
            compile_s=_seconds,
            dynamic_shared_bytes=launch.shared_bytes or 0,
            threads=launch.threads,
            cluster=launch.cluster,
        )
        if launch.shared_bytes is None:
            kernel.notes.append("dynamic shared memory is set at the launch and not counted")
        collector.add(key, kernel)
        keys.append(key)
    return keys


def short_name(symbol: str) -> tuple[str, str]:
    """A kernel's own name, and what follows in its symbol: the types of its arguments."""
    found = _NAME.match(symbol)
    if found is None:
        return symbol, ""
    name = found.group("name")
    rest = symbol[found.end("name") :].strip("_")
    return name, rest if len(rest) <= 120 else f"{rest[:110]}…{digest(rest)[:8]}"


def _line_of_kernel(collector: Collector, name: str) -> SourceLine | None:
    """The line of `def name` below a `kernel` decorator, in the submission."""
    pattern = re.compile(rf"@(?:\w+\.)*kernel\b[^\n]*\n(?:\s*@[^\n]*\n)*\s*def\s+(?P<name>{re.escape(name)})\b")
    for path in sorted(collector.code.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        found = pattern.search(text)
        if found:
            return collector.line_of(str(path), text[: found.start("name")].count("\n") + 1)
    return None


@dataclass(frozen=True)
class LaunchConfiguration:
    """What the generated host code launches a kernel with; None for what is no constant."""

    shared_bytes: int | None = None
    threads: int | None = None
    cluster: tuple[int, int, int] | None = None


def launch_configurations(mlir: str) -> dict[str, LaunchConfiguration]:
    """The launches in lowered MLIR, by kernel symbol.

    Each fills a cudaLaunchConfig_t field by field (grid, block, dynamic shared memory, stream, attributes) and then
    calls cudaLaunchKernelEx; attributes are kind 4 for the cluster, with three extents.
    """
    found: dict[str, LaunchConfiguration] = {}
    for body in _functions(mlir):
        if "cudaLaunchKernelEx" not in body:
            continue
        constants: dict[str, int] = {}
        places: dict[str, tuple[str, tuple[int, ...]]] = {}
        symbols: dict[str, str] = {}
        block: dict[int, int | None] = {}
        cluster: dict[int, int | None] = {}
        shared: int | None = None
        for line in body.splitlines():
            if match := _CONSTANT.search(line):
                constants[match.group(1)] = int(match.group(2))
            elif match := _GEP.search(line):
                path = tuple(int(part) for part in match.group("path").split(","))
                places[match.group(1)] = (match.group("type"), path)
            elif match := _ADDRESS.search(line):
                symbols[match.group(1)] = match.group("symbol")
            elif match := _LOAD.search(line):
                if match.group(2) in symbols:
                    symbols[match.group(1)] = symbols[match.group(2)]
            elif match := _STORE.search(line):
                kind, path = places.get(match.group(2), ("", ()))
                value = constants.get(match.group(1))
                if kind == _CONFIG and path[1:2] == (1,):
                    block[path[2]] = value
                elif kind == _CONFIG and path == (0, 2):
                    shared = value
                elif kind == _TRIPLE:
                    cluster[path[1]] = value
            elif match := _LAUNCH.search(line):
                symbol = symbols.get(match.group(1), "")
                name = symbol[symbol.find("kernel_cutlass") :] if "kernel_cutlass" in symbol else symbol
                found[name] = LaunchConfiguration(shared, _product(block), _triple(cluster))
                block, cluster, shared = {}, {}, None
    return found


def _functions(mlir: str) -> list[str]:
    starts = [match.start() for match in _FUNCTION.finditer(mlir)]
    return [mlir[start:end] for start, end in zip(starts, [*starts[1:], len(mlir)], strict=True)]


def _product(extents: dict[int, int | None]) -> int | None:
    product = 1
    for index in range(3):
        value = extents.get(index)
        if value is None:
            return None
        product *= value
    return product


def _triple(extents: dict[int, int | None]) -> tuple[int, int, int] | None:
    values = [extents.get(index) for index in range(3)]
    if any(value is None for value in values):
        return None
    x, y, z = (value for value in values if value is not None)
    return (x, y, z)

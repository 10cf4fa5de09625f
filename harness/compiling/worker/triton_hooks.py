"""Triton and Gluon: kernels are compiled and collected, nothing is launched.

The driver is that of `triton_driver`. Kernels are taken from Triton's own compilation listener, launches from the
launcher that the driver gives, failures from a wrapper around `triton.compile`. Works with Triton 3.6 and 3.7.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.compiling.record import Dsl, ProblemKind, SourceLine
from harness.compiling.worker.collect import Collector, FoundKernel, digest
from harness.compiling.worker.triton_driver import CompileOnlyDriver, run_once

_TOLD_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MOST_TOLD_CHARS = 300


def dsl_of(path: str) -> Dsl | None:
    return None


"""Another DSL that a kernel's source, by its path, was made by; set by that DSL's hooks."""


def install(collector: Collector) -> None:
    """Stop Triton's launches at the compiler."""
    import triton
    import triton.compiler
    import triton.testing
    from triton import knobs
    from triton.backends.nvidia import compiler as backend
    from triton.runtime import driver

    backend.subprocess = _assembler
    driver.set_active(CompileOnlyDriver(collector))
    knobs.compilation.listener = _Listener(collector)
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(triton.testing, name, run_once)
    compile_ = _recorded(collector, triton.compiler.compile)
    for module in (triton, triton.compiler):
        module.compile = compile_
    _watch_autotuner(collector)


class _WatchedSubprocess:
    """Stands for the module `subprocess` in Triton's backend: the assembler runs there with `-v`, and its words, which
    Triton throws away, hold the bytes of spills."""

    def __init__(self) -> None:
        self.words = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return subprocess.run(*args, **kwargs)
        finally:
            path = getattr(kwargs.get("stderr"), "name", None)
            if isinstance(path, str) and path.endswith(".log"):
                self.words.latest = Path(path).read_text(errors="replace")

    def take(self) -> str:
        """The latest words of this thread; empty where a kernel came from a cache."""
        told = getattr(self.words, "latest", "")
        self.words.latest = ""
        return str(told)


_assembler = _WatchedSubprocess()


def _recorded(collector: Collector, compile_: Callable[..., Any]) -> Callable[..., Any]:
    def recorded(src: Any, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        function = getattr(src, "fn", None)
        name = getattr(function, "__name__", "") or str(getattr(src, "name", ""))
        source = _line_of_kernel(collector, function) or _line_of_origin(collector, function)
        try:
            with collector.compiling(name, source):
                kernel = compile_(src, *args, **kwargs)
        except Exception as error:
            note_failure(collector, src, error)
            raise
        found = collector.kernels.get(kernel.hash)
        if found is not None and not found.compile_s:
            found.compile_s = time.perf_counter() - started
        return kernel

    return recorded


def note_failure(collector: Collector, src: Any, error: Exception) -> None:
    """Record that a kernel did not compile, with the author's line. Whether the code lives on is seen later."""
    name = getattr(getattr(src, "fn", None), "__name__", "") or str(getattr(src, "name", ""))
    innermost, message = _innermost(error)
    source = _line_of_error(collector, innermost) or _line_of_kernel(collector, getattr(src, "fn", None))
    found = collector.problem(
        ProblemKind.COMPILE_ERROR, message, source=source, kernel=name, detail=str(error) or type(error).__name__
    )
    error._harness_problem = found  # type: ignore[attr-defined]


def _innermost(error: BaseException) -> tuple[BaseException, str]:
    """The error nearest to the cause among nested compilation errors, and one line on it."""
    from triton.compiler.errors import CompilationError

    innermost: BaseException = error
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, CompilationError):
            innermost = cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(innermost, CompilationError):
        told = (innermost.error_message or str(innermost)).strip()
        cause = innermost.__cause__
        if not innermost.error_message and cause is not None:
            told = f"{type(cause).__name__}: {cause}"
    else:
        told = f"{type(error).__name__}: {error}".strip()
    lines = [line for line in told.splitlines() if line.strip()]
    return innermost, lines[0] if lines else type(error).__name__


def _line_of_error(collector: Collector, error: BaseException) -> SourceLine | None:
    """A compilation error counts lines from the `def` of the function that it struck; find that function."""
    import gc

    from triton.runtime.jit import JITCallable

    line = getattr(getattr(error, "node", None), "lineno", None)
    text = getattr(error, "src", None)
    if line is None or not isinstance(text, str):
        return None
    for function in (each for each in gc.get_objects() if isinstance(each, JITCallable)):
        if function.src == text:
            at = _line_of_kernel(collector, function)
            return at and SourceLine(at.file, at.line + line - 1)
    return None


def _line_of_kernel(collector: Collector, function: Any) -> SourceLine | None:
    """Where the `def` of a kernel stands in the submission."""
    raw = getattr(function, "fn", None)
    code = getattr(raw, "__code__", None)
    line = getattr(function, "starting_line_number", None)
    if code is None or line is None:
        return None
    lines = getattr(function, "raw_src", None)
    if isinstance(lines, list):  # decorators come first in the raw source
        line += next((i for i, text in enumerate(lines) if text.lstrip().startswith("def ")), 0)
    return collector.line_of(code.co_filename, line)


def _line_of_origin(collector: Collector, function: Any) -> SourceLine | None:
    """Where the function stands that a generated kernel (`_helion_add`) was made from."""
    name = str(getattr(function, "__name__", "")).removeprefix("_helion_")
    return collector.find_text(f"def {name}(") if name else None


class _Listener:
    """Takes every compiled kernel, fresh or from the cache."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def __call__(
        self, *, src: Any, metadata: dict[str, Any], metadata_group: dict[str, str], times: Any, cache_hit: bool
    ) -> None:
        files = {Path(path).suffix: Path(path) for path in metadata_group.values()}
        function = getattr(src, "fn", None)
        code = getattr(getattr(function, "fn", None), "__code__", None)
        dsl = dsl_of(code.co_filename) if code else None
        if dsl is None:
            gluon = getattr(function, "is_gluon", lambda: False)()
            dsl = Dsl.GLUON if gluon else Dsl.TRITON
        seconds = 0.0
        if not cache_hit and times is not None:
            seconds = times.total / 1e6
        kernel = FoundKernel(
            name=getattr(function, "__name__", None) or metadata["name"],
            entry=metadata["name"],
            dsl=dsl,
            cubin=files[".cubin"].read_bytes(),
            ptx=files[".ptx"].read_text() if ".ptx" in files else "",
            specialisation=specialisation(src, metadata),
            source=_line_of_kernel(self._collector, function) or _line_of_origin(self._collector, function),
            compile_s=seconds,
            dynamic_shared_bytes=metadata["shared"],
            shared_is_total=True,
            tensor_memory_columns=metadata.get("tmem_size") or 0,
            threads=32 * metadata["num_warps"],
            cluster=_cluster(metadata),
            log=_assembler.take(),
            assembler_options=tuple(_assembler_options(metadata)),
            autotuned=_tuning > 0,
        )
        self._collector.add(metadata["hash"], kernel)


def _cluster(metadata: dict[str, Any]) -> tuple[int, int, int] | None:
    dims = metadata.get("cluster_dims")
    if dims:
        return tuple(dims)
    return (metadata.get("num_ctas", 1), 1, 1)


def _assembler_options(metadata: dict[str, Any]) -> list[str]:
    options = ["-lineinfo"]
    if not metadata.get("enable_fp_fusion", True):
        options.append("--fmad=false")
    return options + (metadata.get("ptx_options") or "").split()


def specialisation(src: Any, metadata: dict[str, Any]) -> str:
    """Constants, options and argument types of a compiled kernel, as text: what tells two of one name apart."""
    names = list(getattr(getattr(src, "fn", None), "arg_names", []))
    constants = getattr(src, "constants", {}) or {}
    signature = getattr(src, "signature", {}) or {}
    told = []
    for path, value in constants.items():
        if isinstance(path, tuple) and len(path) == 1 and path[0] < len(names):
            name = names[path[0]]
            prefix = "" if signature.get(name) == "constexpr" else "arg "
            text = getattr(value, "__name__", None) or str(value)
            told.append(f"{prefix}{name}={text if len(text) < 40 else digest(text)[:8]}")
    told += [f"{name}={metadata[name]}" for name in _TOLD_OPTIONS if metadata.get(name) not in (None, False)]
    types = [f"{name}:{kind}" for name, kind in signature.items() if kind != "constexpr" and isinstance(kind, str)]
    aligned = [names[path[0]] for path, attributes in (getattr(src, "attrs", {}) or {}).items() if attributes]
    text = " ".join(told) + (f" ({', '.join(types)})" if types else "")
    if aligned and set(aligned) != {name for name, kind in signature.items() if str(kind).startswith("*")}:
        text += f" div16: {', '.join(aligned)}"
    return text if len(text) <= _MOST_TOLD_CHARS else text[: _MOST_TOLD_CHARS - 10] + "…" + digest(text)[:8]


_tuning = 0


@contextmanager
def tuning() -> Iterator[None]:
    """Kernels compiled meanwhile are an autotuner's candidates."""
    global _tuning
    _tuning += 1
    try:
        yield
    finally:
        _tuning -= 1


def _watch_autotuner(collector: Collector) -> None:
    """Know which kernels are candidates of an autotuner, and which of them it left out for their resources."""
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import OutOfResources, PTXASError

    bench, bench_errors = Autotuner._bench, (OutOfResources, CompileTimeAssertionFailure, PTXASError)

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        run = self.fn.run

        def watched(*run_args: Any, **run_kwargs: Any) -> Any:
            try:
                return run(*run_args, **run_kwargs)
            except bench_errors as error:
                survive(collector, error)
                collector.problem(
                    ProblemKind.OVER_LIMIT if isinstance(error, OutOfResources) else ProblemKind.COMPILE_ERROR,
                    f"the autotuner leaves out {config}: {str(error).splitlines()[0]}",
                    source=collector.user_line(),
                    kernel=self.base_fn.__name__,
                    survived=True,
                )
                raise

        self.fn.run = watched
        try:
            with tuning():
                return bench(self, *args, config=config, **meta)
        finally:
            del self.fn.run

    Autotuner._bench = _bench


def survive(collector: Collector, error: BaseException) -> None:
    """The problem that was noted for this error did not end the code."""
    noted = getattr(error, "_harness_problem", None)
    problems = collector.problems.get(collector.case, [])
    if noted in problems:
        problems.remove(noted)

"""CUDA C++ from Python: `load_inline`, `load`. Compiled for the device, never linked. (At run time: `nvrtc_hooks`.)"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from harness.compiling.cubin import kernels_of
from harness.compiling.launches import kernel_lines, launches
from harness.compiling.nvcc import CudaCode, CudaCompileError, compile_cuda
from harness.compiling.record import Dsl, ProblemKind, SourceLine
from harness.compiling.tools import ToolMissingError, has_tool
from harness.compiling.worker.collect import Collector, FoundKernel, NotFollowedError, digest
from harness.compiling.worker.stubs import stub_headers
from harness.compiling.worker.tensors import mark_unknown

_CUDA_SUFFIXES = (".cu", ".cuh")


class CudaBuildError(RuntimeError):
    """What the submission sees where its CUDA code does not compile, as torch's own build would raise."""


def install(collector: Collector) -> None:
    """Stop CUDA builds at the compiler."""
    from torch.utils import cpp_extension

    cpp_extension._jit_compile = functools.partial(_jit_compile, collector)
    # Where torch was built without CUDA it looks for no toolkit, and a caller may ask which there is.
    if cpp_extension.CUDA_HOME is None:
        cpp_extension.CUDA_HOME = cpp_extension._find_cuda_home()


def _jit_compile(
    collector: Collector,
    name: str,
    sources: Any,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    *rest: Any,
    **options: Any,
) -> Any:
    """Stands for torch.utils.cpp_extension._jit_compile: every CUDA source to a cubin, nothing to a library."""
    from torch.utils import cpp_extension

    collector.dsls_seen.add("cuda")
    paths = [Path(source) for source in ([sources] if isinstance(sources, str) else sources)]
    cuda = [path for path in paths if path.suffix in _CUDA_SUFFIXES]
    includes = [Path(path) for path in (extra_include_paths or [])]
    if isinstance(extra_include_paths, str):
        includes = [Path(extra_include_paths)]
    includes += [Path(path) for path in cpp_extension.include_paths("cpu")] + [python_include()]
    flags = [*cpp_extension.COMMON_NVCC_FLAGS, f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += list(extra_cuda_cflags or [])
    if not any(flag.startswith(("-std", "--std")) for flag in flags):
        flags.append("-std=c++17")
    stubs = stub_headers()
    build = functools.partial(compile_for, collector, options=flags, include_dirs=[*includes, stubs], extension=name)
    with ThreadPoolExecutor(max_workers=2) as pool:
        for path, code in zip(cuda, pool.map(build, cuda), strict=True):
            add_kernels(collector, path, code, Dsl.CUDA)
    return _Extension(name, "\n".join(path.read_text(errors="replace") for path in paths))


def python_include() -> Path:
    import sysconfig

    return Path(sysconfig.get_path("include"))


def compile_for(
    collector: Collector,
    path: Path,
    *,
    options: Sequence[str],
    include_dirs: Sequence[Path],
    extension: str = "",
    otherwise: Callable[[], CudaCode] | None = None,
) -> CudaCode:
    """One source to a cubin, by nvcc or, without it, by `otherwise`.

    Raises CudaBuildError after noting every error with the author's line.
    """
    try:
        if otherwise is not None and not has_tool("nvcc"):
            return otherwise()
        return _built(collector, path, options, include_dirs, extension)
    except ToolMissingError as error:
        collector.problem(ProblemKind.MISSING, str(error), source=collector.user_line())
        raise NotFollowedError(str(error)) from error
    except CudaCompileError as error:
        if error.missing:
            text = f"the header {error.missing} is not here"
            collector.problem(ProblemKind.MISSING, text, source=collector.user_line(), detail=error.log)
            raise NotFollowedError(text) from error
        raised = CudaBuildError(f"Error building {path.name}: {error}\n{error.log[-4000:]}")
        noted = []
        for each in error.errors[:10]:
            source = author_line(collector, path, each.file, each.line)
            noted.append(collector.problem(ProblemKind.COMPILE_ERROR, each.text, source=source, detail=error.log))
        raised._harness_problem = noted[0]  # type: ignore[attr-defined]
        raised._harness_problems = noted  # type: ignore[attr-defined]
        raise raised from error


def _built(
    collector: Collector, path: Path, options: Sequence[str], include_dirs: Sequence[Path], extension: str
) -> CudaCode:
    """What nvcc makes of a source, once for each text and set of options. Raises as `compile_cuda` does."""
    key = digest(path, path.read_bytes(), list(options), list(include_dirs))
    if key not in collector.cuda_builds:
        collector.building(f"{extension}/{path.name}" if extension else path.name)
        try:
            code = compile_cuda(path, collector.architecture.name, options=options, include_dirs=include_dirs)
        except CudaCompileError as error:
            collector.cuda_builds[key] = error
        else:
            collector.cuda_builds[key] = code
    built = collector.cuda_builds[key]
    if isinstance(built, CudaCompileError):
        raise CudaCompileError(built.errors, built.log)
    return built


def author_line(collector: Collector, compiled: Path, file: str, line: int) -> SourceLine | None:
    """The author's own line for one that the compiler names: in a file of theirs, or in a string of their Python."""
    if not file:
        return None
    path = Path(file) if Path(file).is_absolute() else compiled.parent / file
    own = collector.line_of(str(path), line)
    if own is not None:
        return own
    try:
        text = path.read_text(errors="replace").splitlines()[line - 1]
    except (OSError, IndexError):
        return SourceLine(Path(file).name, line)
    return collector.find_text(text) or SourceLine(Path(file).name, line)


def add_kernels(
    collector: Collector, path: Path, code: CudaCode, dsl: Dsl, only: str | None = None, text: str | None = None
) -> list[str]:
    """Keep the kernels of a compiled source; returns their keys. `only` restricts to one symbol."""
    text = path.read_text(errors="replace") if text is None else text
    lines, in_text = kernel_lines(text), launches(text)
    keys = []
    for each in kernels_of(code.cubin):
        if only is not None and each.name != only:
            continue
        base = base_name(each.name)
        told = [launch for launch in in_text if launch.kernel == base]
        threads = {launch.threads for launch in told}
        shared = {launch.dynamic_shared_bytes for launch in told}
        source = author_line(collector, path, str(path), lines[base]) if base in lines else None
        kernel = FoundKernel(
            name=base,
            entry=each.name,
            dsl=dsl,
            cubin=code.cubin,
            ptx=code.ptx,
            specialisation=demangled_arguments(each.name),
            source=source,
            compile_s=code.seconds,
            threads=each.threads or None,
            log=code.log,
        )
        if not each.threads and len(threads) == 1 and None not in threads:
            (kernel.threads,) = threads
            kernel.notes.append("block size as the launch in the source has it")
        if len(shared) == 1 and None not in shared:
            kernel.dynamic_shared_bytes = max(value for value in shared if value is not None)
        elif shared:
            kernel.notes.append("dynamic shared memory is set at the launch and not counted")
        key = digest(code.cubin, each.name)
        collector.add(key, kernel)
        keys.append(key)
    return keys


def base_name(symbol: str) -> str:
    """The function's plain name in a mangled symbol: `_Z5plainPf` is `plain`."""
    if not symbol.startswith("_Z"):
        return symbol
    at = 3 if symbol.startswith("_ZN") else 2
    name = symbol
    while at < len(symbol):
        found = re.match(r"(\d+)", symbol[at:])
        if not found:
            break
        start = at + len(found.group(1))
        name = symbol[start : start + int(found.group(1))]
        at = start + int(found.group(1))
        if not symbol.startswith("_ZN"):
            break
    return name


@functools.cache
def demangled_arguments(symbol: str) -> str:
    """The template and call arguments of a mangled symbol as C++ writes them; empty without c++filt."""
    import shutil
    import subprocess

    program = shutil.which("c++filt")
    if program is None or not symbol.startswith("_Z"):
        return ""
    told = subprocess.run([program, symbol], capture_output=True, text=True, timeout=10).stdout.strip()
    at = told.find(base_name(symbol))
    return told[at + len(base_name(symbol)) :] if at >= 0 else ""


class _Unknown:
    """What a C++ function returned: a value that was never made."""

    _function: str

    def __init__(self, function: str) -> None:
        self._function = function

    def _stop(self, *args: Any, **kwargs: Any) -> Any:
        raise NotFollowedError(
            f"the result of the C++ function {self._function} is used, but its host code does not run"
        )

    __getattr__ = __getitem__ = __setitem__ = __len__ = __iter__ = __bool__ = __float__ = __int__ = _stop
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __truediv__ = __neg__ = _stop


class _Extension:
    """A module whose functions' device code is compiled and whose host code does not run."""

    def __init__(self, name: str, text: str) -> None:
        self.__name__ = name
        self._text = text

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        declared = re.search(rf"(?P<type>[\w:<>,&*\s]+?)\b{re.escape(name)}\s*\([^)]*\)\s*[;{{]", self._text)
        returns_nothing = declared is not None and declared.group("type").split()[-1:] == ["void"]

        def function(*args: Any, **kwargs: Any) -> Any:
            for argument in (*args, *kwargs.values()):
                for each in argument if isinstance(argument, list | tuple) else [argument]:
                    if isinstance(each, torch.Tensor):
                        mark_unknown(each)
            return None if returns_nothing else _Unknown(name)

        return function

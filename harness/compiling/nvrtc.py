"""CUDA C++ to cubin and PTX by NVRTC, the library, where there is no nvcc: for kernels that are built at run time."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import time
from collections.abc import Sequence
from pathlib import Path

from harness.compiling.nvcc import CudaCode, CudaCompileError, errors_of, without_architecture
from harness.compiling.tools import ToolMissingError

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def compile_nvrtc(
    text: str, name: str, architecture: str, options: Sequence[str] = (), include_dirs: Sequence[Path] = ()
) -> CudaCode:
    """Compile the kernel `name` (maybe a template's instance) of a source text.

    Raises CudaCompileError; ToolMissingError where there is no NVRTC.
    """
    library = load()
    started = time.perf_counter()
    program = ctypes.c_void_p()
    file_name = name.partition("<")[0].rpartition("::")[2].strip() + ".cu"
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), file_name.encode(), 0, None, None))
    try:
        _check(library, library.nvrtcAddNameExpression(program, name.encode()))
        told = [f"--gpu-architecture={architecture}", "--ptxas-options=-v", "-lineinfo"]
        told += [f"-I{path}" for path in (*include_dirs, *_headers())] + without_architecture(options)
        arguments = (ctypes.c_char_p * len(told))(*(each.encode() for each in told))
        failed = library.nvrtcCompileProgram(program, len(told), arguments)
        log = _bytes(library, program, "nvrtcGetProgramLog").decode(errors="replace")
        if failed:
            raise CudaCompileError(errors_of(log), log)
        cubin = _bytes(library, program, "nvrtcGetCUBIN")
        ptx = _bytes(library, program, "nvrtcGetPTX").decode(errors="replace")
        return CudaCode(cubin, ptx, log, time.perf_counter() - started)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def load() -> ctypes.CDLL:
    """The library, from the loader's path, a package or a toolkit. Raises ToolMissingError that says how to get it."""
    for name in [*_NAMES, *_candidates()]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise ToolMissingError("neither nvcc nor NVRTC is here: pip install nvidia-cuda-nvrtc, or install a CUDA toolkit")


def _candidates() -> list[str]:
    folders = [f"{os.environ[key]}/lib64" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    folders.append("/usr/local/cuda/lib64")
    folders += [f"{root}/*/lib" for root in _package_roots()]
    return [path for folder in folders for path in sorted(glob.glob(f"{folder}/libnvrtc.so.[0-9]*"), reverse=True)]


def _headers() -> list[Path]:
    """CUDA's own headers as Triton and NVIDIA's packages bring them."""
    spec = importlib.util.find_spec("triton")
    found = [Path(spec.origin).parent / "backends" / "nvidia" / "include"] if spec and spec.origin else []
    found += [Path(path) for root in _package_roots() for path in sorted(glob.glob(f"{root}/*/include"))]
    return [path for path in found if path.is_dir()]


def _package_roots() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    return list(spec.submodule_search_locations or []) if spec is not None else []


def _bytes(library: ctypes.CDLL, program: ctypes.c_void_p, getter: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(library, getter + "Size")(program, ctypes.byref(size)) or not size.value:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, getter)(program, buffer))
    return buffer.raw if getter == "nvrtcGetCUBIN" else buffer.value


def _check(library: ctypes.CDLL, code: int) -> None:
    if code:
        words = library.nvrtcGetErrorString
        words.restype = ctypes.c_char_p
        raise CudaCompileError((), f"NVRTC: {(words(code) or b'unknown error').decode()}")

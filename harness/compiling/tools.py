"""Where NVIDIA's programs are: in the packages that brought them, on the path, in a toolkit. No configuration."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

_TOOLKITS = ("/usr/local/cuda", "/opt/cuda")


class ToolMissingError(Exception):
    """A program isn't here; the text says how to get it."""


_HOW = {
    "nvcc": "install a CUDA toolkit (nvcc on PATH, or CUDA_HOME), e.g. the packages cuda-nvcc and cuda-cudart-dev",
    "ptxas": "pip install triton",
    "cuobjdump": "pip install triton",
    "nvdisasm": "pip install triton, or nvidia-cuda-nvdisasm",
}


def find_tool(name: str) -> Path:
    """The program of that name. Raises ToolMissingError that says how to get it."""
    for folder in _folders(name):
        candidate = folder / name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise ToolMissingError(f"{name} is not here: {_HOW.get(name, 'install a CUDA toolkit')}")


def has_tool(name: str) -> bool:
    """Whether the program is here."""
    try:
        find_tool(name)
    except ToolMissingError:
        return False
    return True


def find_ptxas(capability: int) -> Path:
    """The assembler that Triton itself would use for the capability (100 for 10.0)."""
    folder = _triton_folder()
    if folder is not None and capability >= 100 and (folder / "ptxas-blackwell").is_file():
        return folder / "ptxas-blackwell"
    return find_tool("ptxas")


def _folders(name: str) -> list[Path]:
    folders: list[Path] = []
    triton = _triton_folder()
    if triton is not None and name != "nvcc":
        folders.append(triton)
    folders += [Path(os.environ[key]) / "bin" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    on_path = shutil.which(name)
    if on_path:
        folders.append(Path(on_path).parent)
    folders += [Path(toolkit) / "bin" for toolkit in _TOOLKITS]
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        folders += sorted(Path(root).glob("*/bin"), reverse=True)
    return folders


def _triton_folder() -> Path | None:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "bin"
    return folder if folder.is_dir() else None


@functools.cache
def tool_version(path: Path) -> str:
    """`13.1.80` as the program says it; empty when it doesn't."""
    try:
        said = subprocess.run([str(path), "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\bV(\d+(?:\.\d+)+)", said)
    return found.group(1) if found else ""

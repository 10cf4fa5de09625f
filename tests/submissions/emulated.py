"""Runs a Hopper submission's CUDA source on the CPU: emulator.h in place of its primitives, compiled by g++."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TROUBLE = {0: "", 1: "deadlock", 2: "shared memory out of bounds or misaligned"}


def load_submission(board: str, file: str) -> ModuleType:
    """A submission as a module of its own."""
    return load_with_task(board, ROOT / "submissions" / board / file)


def load_with_task(board: str, path: Path) -> ModuleType:
    """A Python file as a module of its own; `task` is the board's while it loads."""
    folder = str(ROOT / "leaderboards" / board)
    sys.path.insert(0, folder)
    try:
        sys.modules.pop("task", None)
        spec = importlib.util.spec_from_file_location(f"{path.parent.parent.name}_{board}_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.modules.pop("task", None)
        sys.path.remove(folder)


class Emulated:
    """A kernel's source, ready to be launched on CPU tensors."""

    def __init__(
        self, module: ModuleType, config: Any, source: str, name: str, folder: Path, *, extra: str = ""
    ) -> None:
        """`extra`: C++ of the test's own, which can call what the source has."""
        emulation = f'#include "{HERE / "emulator.h"}"\n'
        generated = module.wgmma()
        assert module.PRIMITIVES in source
        assert generated in source
        source = source.replace(module.PRIMITIVES, emulation).replace(generated, "")
        found = re.search(rf"{name}\((.*?)\)\s*\{{", source, re.DOTALL)
        assert found
        parameters = found.group(1)
        names = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", parameters))
        source += (
            f'extern "C" int emulate(int blocks_, int split_, int threads_, int bytes_, int mode_, {parameters}) {{\n'
            f"  return emulator::run(blocks_, split_, threads_, bytes_, mode_, [&] {{ {name}({names}); }});\n}}\n"
        )
        source += extra
        library = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
        if not library.exists():  # whichever test, in whichever process, was first
            build(source, library)
        self.config = config
        self._at_once = 0 if config.stream else config.split
        self._launch = module.THREADS, config.shared_bytes
        self.library = ctypes.CDLL(str(library))

    def __call__(self, blocks: int, arguments: list[Any], *, lazy: bool, skewed: bool = False) -> str:
        """Runs all blocks; returns what went wrong, or nothing."""
        values = [ctypes.c_void_p(x.data_ptr()) if isinstance(x, torch.Tensor) else x for x in arguments]
        outcome = self.library.emulate(blocks, self._at_once or blocks, *self._launch, lazy + 2 * skewed, *values)
        return TROUBLE[outcome]


def build(source: str, library: Path) -> None:
    """Compiles it; the library is there only when it is whole."""
    with tempfile.TemporaryDirectory(dir=library.parent) as made:
        file, output = Path(made, "source.cc"), Path(made, "library.so")
        file.write_text(source)
        flags = ["-std=c++20", "-O1", "-mf16c", "-fno-strict-aliasing", "-shared", "-fPIC", "-w"]
        subprocess.run(["g++", *flags, "-o", str(output), str(file)], check=True, capture_output=True, text=True)
        output.rename(library)

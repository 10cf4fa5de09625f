"""Compilations kept on disk, by everything that they depend on. One folder each, put in place whole.

Only compilations that ended by themselves are kept: no timeouts, no crashes, nothing that a missing package decided.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness import __version__
from harness.compiling.jsonable import RecordError, compilation_from_dict, to_dict
from harness.compiling.record import Compilation, ProblemKind
from harness.compiling.tools import ToolMissingError, find_tool, tool_version

RESULT = "compilation.json"
MOST_BYTES = 1 << 30
"""Older compilations go when all together take more."""
PACKAGES = ("torch", "triton", "helion", "nvidia-cutlass-dsl", "numpy")
UNCERTAIN = (ProblemKind.CRASH, ProblemKind.TIMEOUT, ProblemKind.MISSING)


@cache
def versions() -> Mapping[str, str]:
    """What a compilation's result depends on, by name; programs as their packages say."""
    found = {"harness": __version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    for tool in ("nvcc", "ptxas", "nvdisasm"):
        try:
            found[tool] = tool_version(find_tool(tool))
        except ToolMissingError:
            continue
    return found


@cache
def own_code() -> str:
    """A digest of this package's own text, so that no result of another version is taken for its own."""
    told = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        told.update(path.read_bytes())
    return told.hexdigest()


def key_of(**parts: Any) -> str:
    """The key of a compilation from its content and options, with the versions of all that makes it."""
    told = {"parts": parts, "versions": dict(versions()), "code": own_code()}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


class ResultCache:
    """A folder of compilations. Every fault of it is a miss."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> tuple[Compilation, dict[str, bytes]] | None:
        """The compilation and its artefacts by file name."""
        at = self._folder / key
        try:
            compilation = compilation_from_dict(json.loads((at / RESULT).read_text()))
            names = {name for kernel in compilation.kernels for name in kernel.files.values()}
            artefacts = {name: (at / name).read_bytes() for name in names}
            os.utime(at)
        except (OSError, ValueError, RecordError):
            return None
        return compilation, artefacts

    def put(self, key: str, compilation: Compilation, artefacts: Mapping[str, bytes]) -> None:
        if any(problem.kind in UNCERTAIN for problem in compilation.every_problem):
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
            for name, content in artefacts.items():
                (made / name).write_bytes(content)
            (made / RESULT).write_text(json.dumps(to_dict(compilation)))
            made.chmod(0o755)
            target = self._folder / key
            shutil.rmtree(target, ignore_errors=True)
            made.rename(target)
            self._prune()
        except OSError:
            return  # a full or read-only disk costs the next run its time, no more

    def _prune(self) -> None:
        kept = []
        for entry in self._folder.iterdir():
            size = sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
            kept.append((entry.stat().st_mtime, size, entry))
        total = sum(size for _, size, _ in kept)
        for _, size, entry in sorted(kept):
            if total <= MOST_BYTES:
                break
            shutil.rmtree(entry, ignore_errors=True)
            total -= size

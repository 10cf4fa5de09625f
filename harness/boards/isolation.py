"""Modules of a board's own: importable within a `with`, out of sight outside it.

Every public problem folder calls its modules `reference`, `task` and `utils`. `sys.modules` is one for the process, so
each board's modules are put there for the length of a call and taken out again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import ModuleType

_lock = threading.RLock()
"""Held while a board's modules stand in `sys.modules`; boards of two threads take turns."""


class OwnModules:
    """The modules that `file_names`, laid out in `folder`, define, and further ones loaded by path."""

    def __init__(self, folder: Path, file_names: Iterable[str]) -> None:
        self.folder = folder
        self.names: set[str] = set()
        for file_name in file_names:
            path = PurePosixPath(file_name)
            if path.suffix == ".py":
                parts = path.with_suffix("").parts
                self.names |= {".".join(parts[: i + 1]) for i in range(len(parts))}
        self._loaded: dict[str, ModuleType] = {}
        self._importable_now = False

    def load(self, name: str, path: Path | None = None) -> ModuleType:
        """Import `name`, from the file at `path` where that is outside the folder. What the code raises is raised."""
        if path is not None:
            self.names.add(name)
        with self.importable():
            importlib.invalidate_caches()  # the files may be younger than the finder's listing
            if path is None:
                return importlib.import_module(name)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Within, `import task` finds this board's `task`, already loaded or not."""
        with _lock:
            if self._importable_now:  # a call within a call
                yield
                return
            self._importable_now = True
            before = {name: sys.modules.pop(name) for name in self.names if name in sys.modules}
            path_before = list(sys.path)
            sys.modules.update(self._loaded)
            sys.path.insert(0, str(self.folder))
            try:
                yield
            finally:
                self._importable_now = False
                self._loaded = {name: sys.modules.pop(name) for name in self.names if name in sys.modules}
                sys.modules.update(before)
                sys.path[:] = path_before

"""Hooks for kernel DSLs, each set up when the submission first imports it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from harness.compiling.worker.collect import Collector


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been imported, whoever imports it."""

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self._actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self._actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, action)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, action: Callable[[], None]) -> None:
        self._inner, self._action = inner, action

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._action()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def install(collector: Collector) -> None:
    """Stop every DSL's launches at its compiler, from the moment that it is imported."""
    from harness.compiling.worker import cuda_hooks, cute_hooks, helion_hooks, nvrtc_hooks, triton_hooks

    def seen(name: str, action: Callable[[Collector], None]) -> Callable[[], None]:
        def run() -> None:
            collector.dsls_seen.add(name)
            action(collector)

        return run

    actions = {
        "triton": seen("triton", triton_hooks.install),
        "helion": seen("helion", helion_hooks.install),
        "cutlass": seen("cute", cute_hooks.install),
    }
    cuda_hooks.install(collector)
    nvrtc_hooks.install(collector)
    cute_hooks.prepare(collector)
    helion_hooks.prepare()
    for name in list(actions):
        if name in sys.modules:
            actions.pop(name)()
    sys.meta_path.insert(0, _AfterImport(actions))

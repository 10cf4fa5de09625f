"""Helion: its Triton code is made for the asked architecture and launched through the hooks of Triton.

Helion traces with fake tensors of torch's own, so the make-believe device stands aside meanwhile. Nothing can be
autotuned without a device: a kernel that fixes one configuration is compiled with it, one that lists several with each
of them, any other with Helion's own default.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.compiling.record import Dsl, ProblemKind
from harness.compiling.worker import triton_hooks
from harness.compiling.worker.collect import Collector
from harness.compiling.worker.make_believe import aside

_HEADER_BYTES = 4096


def prepare() -> None:
    """Settings that Helion reads when it is imported."""
    os.environ["HELION_AUTOTUNE_EFFORT"] = "none"
    os.environ["HELION_SKIP_CACHE"] = "1"


def install(collector: Collector) -> None:
    """Choose configurations without measuring, and know which Triton kernels are Helion's."""
    from helion.runtime.kernel import BoundKernel, Kernel

    Kernel.bind = _aside(Kernel.bind)
    for name in ("compile_config", "to_triton_code", "to_code"):
        if hasattr(BoundKernel, name):
            setattr(BoundKernel, name, _aside(getattr(BoundKernel, name)))
    BoundKernel.ensure_config_exists = functools.partialmethod(_choose, collector=collector)
    triton_hooks.dsl_of = dsl_of


def _aside(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with aside():
            return method(*args, **kwargs)

    return call


def _choose(self: Any, args: Any, *, collector: Collector) -> None:
    """Stands for BoundKernel.ensure_config_exists."""
    if self._config is not None:
        return
    configs = list(self.kernel.configs or [])
    if not configs:
        with aside():
            config = self.config_spec.default_config()
        collector.problem(
            ProblemKind.GUESS,
            f"Helion would search a configuration for {self.kernel.name} on the device; compiled with its default",
            source=collector.user_line(),
            kernel=self.kernel.name,
            survived=True,
        )
        self.set_config(config)
        return
    if len(configs) > 1:
        configs = [config for config in configs if _compiles(self, config, args, collector)] or configs
    self.set_config(configs[0])


def _compiles(bound: Any, config: Any, args: Any, collector: Collector) -> bool:
    """Compile one of several configurations, as an autotuner would to measure it."""
    with triton_hooks.tuning():
        try:
            bound.compile_config(config)(*args)
        except Exception as error:
            triton_hooks.survive(collector, error)
            lines = str(error).splitlines() or [type(error).__name__]
            collector.problem(
                ProblemKind.COMPILE_ERROR,
                f"the autotuner leaves out {config}: {lines[0]}",
                source=collector.user_line(),
                kernel=bound.kernel.name,
                survived=True,
            )
            return False
    return True


@functools.cache
def dsl_of(path: str) -> Dsl | None:
    """Helion for a kernel whose file Helion wrote."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(_HEADER_BYTES)
    except OSError:
        return None
    return (
        Dsl.HELION
        if ("helion" in head and "torchinductor" in str(Path(path))) or "from helion.runtime" in head
        else None
    )

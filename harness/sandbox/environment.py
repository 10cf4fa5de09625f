"""The environment that a fork server is to be started with.

What a process was started with stays readable in its /proc/PID/environ and in that of all it forks, so that taking
a secret out later is too late.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_NAMES = (
    "PATH",
    "LANG",
    "TZ",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "CC",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
)
_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "TRITON_", "TORCH", "PYTORCH_", "CUTE_")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables of this process that a worker needs (compilers, CUDA, thread counts), and `extra`; nothing else."""
    kept = {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    return {**kept, **(extra or {})}

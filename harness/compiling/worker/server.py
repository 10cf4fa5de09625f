"""The fork server of compile mode: as that of evaluations, with workers that compile.

Everything of this package that a worker needs is imported here, since it is hidden from the sandbox.
"""

from __future__ import annotations

import contextlib
import importlib
import os

import harness.boards.loader
import harness.boards.reference
import harness.compiling.analyse
import harness.compiling.worker.cuda_answers
import harness.compiling.worker.cuda_hooks
import harness.compiling.worker.cute_hooks
import harness.compiling.worker.helion_hooks
import harness.compiling.worker.hooks
import harness.compiling.worker.inputs
import harness.compiling.worker.nvrtc_hooks
import harness.compiling.worker.triton_driver
import harness.compiling.worker.triton_hooks
import harness.worker.entry  # noqa: F401
from harness.compiling.worker.run import run_worker
from harness.worker import forkserver


def preload() -> None:
    """Import what the supervisor says that workers will need; what isn't here is the submission's problem to meet."""
    for name in filter(None, os.environ.get("HARNESS_COMPILE_PRELOAD", "").split(",")):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    preload()
    forkserver.main(run_worker)

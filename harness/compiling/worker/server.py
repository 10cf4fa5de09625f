"""The fork server of compile mode: as that of evaluations, with workers that compile.

Everything of this package that a worker needs is imported here, since it is hidden from the sandbox.
"""

from __future__ import annotations

import harness.boards.loader
import harness.boards.reference
import harness.compiling.analyse
import harness.compiling.worker.cuda_answers
import harness.compiling.worker.cuda_hooks
import harness.compiling.worker.cute_hooks
import harness.compiling.worker.helion_hooks
import harness.compiling.worker.hooks
import harness.compiling.worker.inputs
import harness.compiling.worker.triton_hooks
import harness.worker.entry  # noqa: F401
from harness.compiling.worker.run import run_worker
from harness.worker import forkserver

if __name__ == "__main__":
    forkserver.main(run_worker)

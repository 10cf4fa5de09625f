"""Where the workers of one evaluation live: the warm fork server, a fresh folder for each, its caches and logs.

A worker's folder holds the submission and the board's support files, never the reference. Caches that the build phase
leaves are copied into later folders, so that nothing written in a phase that saw secret inputs is ever read again.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import psutil

from harness.boards.board import Board
from harness.boards.task_files import write_task_files
from harness.evaluation.record import IsolationLevel
from harness.evaluation.workers import ForkServer, WorkerProcess, start_under_bubblewrap
from harness.sandbox import Bind, clean_environment, default_plan
from harness.sandbox.plan import MOUNT_LEVELS
from harness.scratch import PASSABLE, Scratch
from harness.store.location import home as store_home
from harness.trees import Bounds, TooMuchError, copy_tree, remove_tree

CODE, CACHE, HOME = "code", "cache", "home"
"""In a worker's folder: the submission and support files (read-only), compiler caches, its home."""
CACHE_VARIABLES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
    "CUTE_DSL_CACHE_DIR": "cute",
}
CACHE_INSIDE = Path("/cache")
MEMORY_SHARE = 0.8
"""How much of the machine's memory the workers of a submission may take before one is stopped."""
KEPT = Bounds(size_bytes=1 << 30, entries=50_000)
"""What the caches of the build phase may hold, as each later worker gets a copy of it."""

HIDDEN_FILES = ("reference.py", "eval.py", "lint.py")


def server_environment() -> dict[str, str]:
    """The environment of the fork server."""
    return clean_environment({"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"})


def support_files(board: Board) -> tuple[str, ...]:
    """Names of the board's files that lie beside the submission: its types and helpers, never what judges it."""
    if board.settings.worker_files is not None:
        return board.settings.worker_files
    hidden = {*HIDDEN_FILES, board.main}
    return tuple(file.name for file in board.files if file.source is not None and file.name not in hidden)


def submission_file(board: Board) -> str:
    """The name that the submission has beside the support files."""
    return next(file.name for file in board.files if file.source is None)


class Host:
    """Makes workers for one evaluation. Use as a context manager: leaving it ends every process and removes folders.

    `server` may be a warm one of the caller's; it is then left running.
    """

    def __init__(
        self,
        board: Board,
        source: str,
        *,
        cuda: bool,
        isolation: IsolationLevel,
        logs: Path,
        interpreted: bool = False,
        server: ForkServer | None = None,
    ) -> None:
        self.board, self._source, self._cuda = board, source, cuda
        self.isolation, self.logs, self._interpreted = isolation, logs, interpreted
        self._scratch = Scratch.make("harness-run-", PASSABLE)
        self._root = self._scratch.path
        self._server, self._owns_server = server, server is None
        self._caches: Path | None = None
        self._count = 0
        self._started: list[tuple[WorkerProcess, Path]] = []
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Host:
        if self._server is None:
            self._server = ForkServer(server_environment())
        return self

    def __exit__(self, *exc: object) -> None:
        if self._owns_server and self._server is not None:
            self._server.close()
        self._scratch.remove()

    def start(self, phase: str, *, with_submission: bool = True, sharers: int = 1) -> tuple[WorkerProcess, Path]:
        """A worker in a fresh folder, one of `sharers` that live together and share the memory a submission may take;
        its output goes to `<logs>/<n>-<phase>.log`. The folders of those that have ended go, so that what each may
        write to the disk does not add up."""
        assert self._server is not None
        self._remove_ended()
        self._count += 1
        folder = self._root / f"{self._count}-{phase}"
        code, cache, home = folder / CODE, folder / CACHE, folder / HOME
        for made in (folder, code, home):
            made.mkdir(mode=0o755)
        if self._caches is not None:
            copy_tree(self._caches, cache, KEPT)
        else:
            cache.mkdir()
        if with_submission:
            names = {*support_files(self.board), submission_file(self.board)}
            write_task_files(self.board, code, self._source, names)
        log = self.logs / f"{self._count:02d}-{phase}.log"
        log.touch(mode=0o600)
        # Where a worker has a file tree of its own, at one place for all: ninja and others build again what has moved.
        shown = CACHE_INSIDE if self.isolation in MOUNT_LEVELS else cache
        sandbox = default_plan(
            self.isolation,
            scratch=home,
            cuda=self._cuda,
            readable=[code],
            writable=[] if shown is CACHE_INSIDE else [cache],
            binds=[Bind(str(cache), str(shown), writable=True)] if shown is CACHE_INSIDE else [],
            hidden=[store_home(), self.board.folder],
            memory_bytes=int(psutil.virtual_memory().total * MEMORY_SHARE) // sharers,
        )
        environment = {**server_environment(), **self._environment(shown)}
        if self.isolation is IsolationLevel.BUBBLEWRAP:
            worker = start_under_bubblewrap(environment, log, sandbox)
        else:
            worker = self._server.spawn(home, environment, log, sandbox)
        self._started.append((worker, folder))
        return worker, folder

    def _remove_ended(self) -> None:
        for worker, folder in self._started:
            if not worker.alive:
                remove_tree(folder)
        self._started = [each for each in self._started if each[0].alive]

    def wait_ready(self) -> None:
        """Wait until the fork server can fork, which is when it has imported torch."""
        assert self._server is not None
        if self.isolation is not IsolationLevel.BUBBLEWRAP:
            self._server.wait_ready()

    def keep_caches(self, folder: Path) -> str:
        """Let later workers begin with copies of the caches in this folder, whose worker has ended. Where they hold too
        much to be copied, later workers begin with none: why, in a line for the user, else nothing."""
        self._caches = None
        kept = self._root / f"kept-{self._count}"
        try:
            copy_tree(folder / CACHE, kept, KEPT)
        except TooMuchError as error:
            return f"the compilers' caches are not kept, so that each worker compiles anew: they hold {error}"
        self._caches = kept
        return ""

    def _environment(self, cache: Path) -> Mapping[str, str]:
        environment = {name: str(cache / sub) for name, sub in CACHE_VARIABLES.items()}
        if self._interpreted:
            environment["TRITON_INTERPRET"] = "1"
        # Compilers that torch and Triton start look for the interpreter's own programs, such as ninja.
        environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        environment["VIRTUAL_ENV"] = sysconfig.get_path("data")
        return environment

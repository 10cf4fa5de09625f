"""Folders, environment and sandbox of one popcorn evaluation: a fresh folder with the task's files for every run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.boards.board import Board, format_spec
from harness.boards.task_files import write_task_files
from harness.evaluation.host import CACHE_VARIABLES, KEPT
from harness.evaluation.plan import PlannedCase
from harness.evaluation.record import IsolationLevel
from harness.popcorn.program import Program
from harness.sandbox import clean_environment, default_plan
from harness.scratch import PASSABLE, Scratch
from harness.trees import TooMuchError, copy_tree, remove_tree

CASES_FILE = "cases.txt"
_CACHE = "cache"


class Workplace:
    """Where an evaluation's programs run. Leaving the context removes the folders."""

    def __init__(
        self,
        board: Board,
        source: str,
        *,
        isolation: IsolationLevel,
        cuda: bool,
        logs: Path,
        interpreted: bool = False,
        gpus: int = 0,
    ) -> None:
        self._board, self._source = board, source
        self._isolation, self._cuda, self._logs = isolation, cuda, logs
        self._interpreted, self._gpus = interpreted, gpus
        self._count = 0
        self._caches: Path | None = None

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._scratch = Scratch.make("harness-popcorn-", PASSABLE)
        self._root = self._scratch.path
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scratch.remove()

    def folder(self, name: str, *, cases: Iterable[PlannedCase] = (), with_files: bool = True) -> Path:
        """A fresh folder with the board's files and the submission under the task's names, and the cases file."""
        self._count += 1
        folder = self._root / f"{self._count:02d}-{name}"
        folder.mkdir(mode=0o755)
        if self._caches is not None:
            copy_tree(self._caches, folder / _CACHE, KEPT)
        (folder / _CACHE).mkdir(exist_ok=True)
        if with_files:
            write_task_files(self._board, folder, self._source)
        (folder / CASES_FILE).write_text("".join(f"{format_spec(case.spec)}\n" for case in cases))
        return folder

    def program(self, folder: Path, argv: Sequence[str], *, seed: int | None = None) -> Program:
        """`argv` as a program in `folder`; its log is named after the folder."""
        sandbox = default_plan(
            self._isolation,
            scratch=folder,
            cuda=self._cuda,
            hidden=[self._board.folder, self._logs],
            scratch_bytes=None,
        )
        home = Path(sandbox.home)
        environment = {
            **clean_environment(),
            **{variable: str(home / _CACHE / name) for variable, name in CACHE_VARIABLES.items()},
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            # Compilers that torch and Triton start look for the interpreter's own programs, such as ninja.
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        }
        if self._interpreted:
            environment["TRITON_INTERPRET"] = "1"
        if seed is not None:
            environment["POPCORN_SEED"] = str(seed)
        if self._board.multi_gpu:
            environment["POPCORN_GPUS"] = str(self._gpus)
        return Program(
            argv,
            environment=environment,
            sandbox=sandbox,
            log=self._logs / f"{folder.name}.log",
            verdicts=self._logs / f"{folder.name}.pipe.log",
        )

    def keep_caches(self, folder: Path) -> None:
        """Let later folders begin with copies of this one's compiler caches, or with none where they hold too much to
        be copied. Its programs have ended."""
        kept = self._root / "kept"
        remove_tree(kept)
        try:
            copy_tree(folder / _CACHE, kept, KEPT)
            self._caches = kept
        except TooMuchError:
            self._caches = None

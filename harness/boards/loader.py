"""A problem folder made a `Board`: `task.yml` in the public format and, where there is one, `harness.yml` beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from harness.boards import harness_yml, task_yml
from harness.boards.board import Board, Grid, GridName, RankBy, Settings
from harness.boards.names import check_name
from harness.errors import HarnessError, RequestError
from harness.files import absolute_path, user_path, why_not_seen


def load_board(
    folder: Path,
    *,
    name: str | None = None,
    deadline: datetime | None = None,
    gpus: Sequence[str] | None = None,
) -> Board:
    """Load a problem folder; `name`, `deadline` and `gpus` are those of a set file, where one lists the folder.

    Without `name` the folder's own name is the board's. `gpus` wins over the folder's own list. All paths in the
    board are absolute. Raises RequestError naming file and key.
    """
    folder = _problem_folder(folder)
    task = task_yml.read_task_yml(folder / task_yml.FILE_NAME)
    settings_path = folder / harness_yml.FILE_NAME
    settings = Settings()
    if os.path.exists(settings_path):
        file_names = [file.name for file in task.files]
        settings = harness_yml.read_harness_yml(settings_path, file_names, multi_gpu=task.multi_gpu)
    return Board(
        name=name if name is not None else _name_of(folder),
        folder=folder,
        language=task.language,
        files=task.files,
        description=task.description,
        main=task.main,
        cuda=task.cuda,
        full_grid=Grid(GridName.FULL, task.tests, task.benchmarks),
        ranking_by=task.ranking_by,
        test_timeout_s=task.test_timeout_s,
        benchmark_timeout_s=task.benchmark_timeout_s,
        ranked_timeout_s=task.ranked_timeout_s,
        gpus=tuple(gpus) if gpus is not None else task.gpus,
        multi_gpu=task.multi_gpu,
        seed=task.seed,
        libraries=task.libraries,
        templates=task.templates,
        deadline=deadline,
        settings=settings,
    )


def require_rankable(board: Board, grid: Grid) -> None:
    """Raise RequestError unless the board's rule makes one score of the grid's benchmarks.

    A public folder that says nothing ranks by `last`, which has a meaning for one benchmark alone; it can still be
    tested and benchmarked, so only ranked runs ask this.
    """
    count = len(grid.benchmarks)
    where = str(board.folder / task_yml.FILE_NAME)
    if count == 0:
        raise RequestError(f"board '{board.name}' has no benchmarks, so there is nothing to rank", where=where)
    if board.ranking_by is RankBy.LAST and count > 1:
        raise RequestError(
            f"`ranking_by: last` makes the score of one benchmark, but the {grid.name} grid has {count}",
            where=f"{where}: ranking_by",
            allowed="mean, geom",
            hint="Use mode test or benchmark, or add `ranking_by: geom` to the board.",
        )


def _problem_folder(folder: Path) -> Path:
    """The absolute folder; its `task.yml` may be named instead."""
    path = absolute_path(user_path(folder))
    if path.name == task_yml.FILE_NAME and os.path.isfile(path):
        path = path.parent
    task = path / task_yml.FILE_NAME
    if not os.path.isdir(path):
        what = "not a folder" if os.path.exists(path) else "there is no such folder"
        if why := why_not_seen(path):
            what = f"can't be looked at: {why}"
        raise RequestError(what, where=str(folder), hint=f"A board is a folder with a {task_yml.FILE_NAME}.")
    if why := why_not_seen(task):
        raise RequestError(f"the folder can't be entered: {why}", where=str(folder))
    if not os.path.isfile(task):
        raise RequestError(
            f"the folder has no {task_yml.FILE_NAME}",
            where=str(folder),
            hint="A board is a folder in the format of the public popcorn problems.",
        )
    return path


def _name_of(folder: Path) -> str:
    def error(what: str, key: str, *, allowed: str) -> HarnessError:
        return RequestError(
            what, where=str(folder), allowed=allowed, hint="Rename the folder, or give it a name in a set file."
        )

    return check_name(folder.name, error)

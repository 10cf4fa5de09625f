"""A board's files laid out in a folder under the names that the task gives them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from harness.boards.board import Board
from harness.errors import RequestError


def write_task_files(
    board: Board, folder: Path, submission_text: str | None = None, names: Collection[str] | None = None
) -> list[Path]:
    """Write the board's files into `folder`, which must exist, and return the paths written, in the task's order.

    The submission's own file is written where `submission_text` is given, and left out where it is None. `names`
    restricts the files to those. Text is copied byte for byte. Raises RequestError for a source that has gone since
    the board was loaded.
    """
    written = []
    for file in board.files:
        if names is not None and file.name not in names:
            continue
        if file.source is None:
            if submission_text is None:
                continue
            content = submission_text.encode("utf-8")
        else:
            try:
                content = file.source.read_bytes()
            except OSError as error:
                raise RequestError(
                    f"the file can't be read: {error.strerror}", where=str(file.source), hint="Load the board again."
                ) from error
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        written.append(path)
    return written


def worker_file_names(board: Board) -> tuple[str, ...]:
    """The names of the files that may lie beside a submission: never the reference, the eval main or `lint.py`."""
    if board.settings.worker_files is not None:
        return board.settings.worker_files
    kept_back = {board.main, "reference.py", "lint.py"}
    return tuple(file.name for file in board.files if file.source is not None and file.name not in kept_back)

"""Where boards are found, in this order: `./leaderboards`, the folders of `HARNESS_LEADERBOARDS`, the shipped ones.

The first folder of a name wins, also one that does not load: a slip in your own board must not silently run another
of that name. It never hides boards of other names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.boards.board import Board
from harness.boards.loader import load_board
from harness.boards.problem_set import is_problem_set, read_problem_set
from harness.boards.task_yml import FILE_NAME
from harness.errors import HarnessError, RequestError, did_you_mean

VARIABLE = "HARNESS_LEADERBOARDS"
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class BrokenBoard:
    """A folder or set file that was found and does not load. `name` is the board's, or the file's."""

    name: str
    path: Path
    error: HarnessError


@dataclass(frozen=True)
class Found:
    """All that was found, in order of precedence."""

    boards: tuple[Board, ...]
    broken: tuple[BrokenBoard, ...]


def board_roots() -> tuple[Path, ...]:
    """The folders that are searched and exist, in order, each once."""
    named = [Path(part).expanduser() for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    roots: list[Path] = []
    for root in [Path("leaderboards"), *named, shipped_leaderboards()]:
        resolved = root.resolve()
        if resolved.is_dir() and resolved not in roots:
            roots.append(resolved)
    return tuple(roots)


def shipped_leaderboards() -> Path:
    """The boards that come with the package: inside it when installed, beside it in a checkout."""
    return _shipped("leaderboards")


def shipped_submissions(board: Board) -> Path:
    """The folder of the shipped submissions of a board; it need not exist."""
    return _shipped("submissions") / board.name


def baseline_folders(board: Board) -> tuple[Path, ...]:
    """Where a board's baselines are looked for, in this order: its shipped submissions, then its own folder."""
    return shipped_submissions(board), board.folder


def baseline_file(board: Board, name: str) -> Path | None:
    """The file of a baseline that `harness.yml` lists; None where there is none."""
    return next((folder / name for folder in baseline_folders(board) if (folder / name).is_file()), None)


def _shipped(name: str) -> Path:
    inside = _PACKAGE / f"_{name}"
    return inside if inside.is_dir() else _PACKAGE.parent / name


def scan() -> Found:
    """Load every board there is, and keep what does not load beside them."""
    boards: dict[str, Board] = {}
    broken: list[BrokenBoard] = []
    for root in board_roots():
        for name, path, board in _boards_in(root):
            if name.lower() in boards or name.lower() in (entry.name.lower() for entry in broken):
                continue
            if isinstance(board, HarnessError):
                broken.append(BrokenBoard(name, path, board))
            else:
                boards[name.lower()] = board
    return Found(tuple(boards.values()), tuple(broken))


def find_boards() -> tuple[Board, ...]:
    """Every board that loads, in order of precedence."""
    return scan().boards


def find_board(name_or_path: str) -> Board:
    """The board of that name or alias, in any case; or the problem folder, where the text has a slash or is a folder.

    Raises RequestError where there is none, with the nearest name; a board that was found and does not load raises
    its own error.
    """
    path = Path(name_or_path).expanduser()
    if "/" in name_or_path or os.sep in name_or_path or name_or_path in (".", "..", "~"):
        return load_board(path)
    found = scan()
    wanted = name_or_path.lower()
    for board in found.boards:
        if board.name.lower() == wanted:
            return board
    for entry in found.broken:
        if entry.name.lower() == wanted:
            raise entry.error
    for board in found.boards:
        if wanted in (alias.lower() for alias in board.settings.aliases):
            return board
    if path.is_dir():
        return load_board(path)
    names = [board.name for board in found.boards]
    aliases = [alias for board in found.boards for alias in board.settings.aliases]
    raise RequestError(
        f"there is no board '{name_or_path}'",
        allowed=", ".join(names),
        hint=did_you_mean(wanted, [*names, *aliases]) or "`harness boards` lists them; a folder is named by its path.",
    )


def _boards_in(root: Path) -> list[tuple[str, Path, Board | HarnessError]]:
    """The boards of one folder: those its set files list, then its own problem folders, or itself if it is one."""
    if (root / FILE_NAME).is_file():
        return [(root.name, root, _loaded(root))]
    entries: list[tuple[str, Path, Board | HarnessError]] = []
    listed: set[Path] = set()
    try:
        children = sorted(root.iterdir())
    except OSError as error:
        return [(root.name, root, RequestError(f"the folder can't be read: {error.strerror}", where=str(root)))]
    for child in children:
        if not is_problem_set(child):
            continue
        try:
            problems = read_problem_set(child).problems
        except HarnessError as error:
            entries.append((child.name, child, error))
            continue
        for problem in problems:
            listed.add(problem.folder)
            try:
                entries.append((problem.name, problem.folder, problem.load()))
            except HarnessError as error:
                entries.append((problem.name, problem.folder, error))
    entries += [
        (child.name, child, _loaded(child))
        for child in children
        if child.resolve() not in listed and (child / FILE_NAME).is_file()
    ]
    return entries


def _loaded(folder: Path) -> Board | HarnessError:
    try:
        return load_board(folder)
    except HarnessError as error:
        return error

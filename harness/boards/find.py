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
from harness.files import absolute_path, why_not_seen

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
    roots: dict[Path, None] = {}
    for root in [Path("leaderboards"), *named_folders().values(), shipped_leaderboards()]:
        if os.path.isdir(root):
            roots[absolute_path(root)] = None
    return tuple(roots)


def named_folders() -> dict[str, Path]:
    """The parts of `HARNESS_LEADERBOARDS` and the folders that they mean. `~name` of nobody stays as it is: a folder
    that is not there."""
    parts = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    return {part: Path(os.path.expanduser(part)) for part in parts}


def missing_folders() -> dict[str, str]:
    """The parts of `HARNESS_LEADERBOARDS` that are no folder, and what is the matter with each."""
    missing = {}
    for part, path in named_folders().items():
        if why := why_not_seen(path):
            missing[part] = f"can't be looked at: {why}"
        elif not os.path.isdir(path):
            missing[part] = "is not a folder" if os.path.exists(path) else "does not exist"
    return missing


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
    return next((folder / name for folder in baseline_folders(board) if os.path.isfile(folder / name)), None)


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
    if "/" in name_or_path or os.sep in name_or_path or name_or_path in (".", "..") or name_or_path.startswith("~"):
        return load_board(Path(name_or_path))
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
    if os.path.isdir(name_or_path):
        return load_board(Path(name_or_path))
    names = [board.name for board in found.boards]
    aliases = [alias for board in found.boards for alias in board.settings.aliases]
    raise RequestError(
        f"there is no board '{name_or_path}'",
        allowed=", ".join(names),
        hint=did_you_mean(wanted, [*names, *aliases]) or "`harness boards` lists them; a folder is named by its path.",
    )


def _boards_in(root: Path) -> list[tuple[str, Path, Board | HarnessError]]:
    """The boards of one folder: those its set files list, then its own problem folders, or itself if it is one."""
    if os.path.isfile(root / FILE_NAME):
        return [(root.name, root, _loaded(root))]
    entries: list[tuple[str, Path, Board | HarnessError]] = []
    listed: set[Path] = set()
    try:
        children = sorted(root.iterdir())
    except OSError as error:
        return [(root.name, root, RequestError(f"the folder can't be read: {error.strerror}", where=str(root)))]
    if not os.access(root, os.X_OK):
        return [(root.name, root, RequestError("the folder may be listed and not entered", where=str(root)))]
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
        if os.path.realpath(child) not in map(str, listed) and _may_be_board(child)
    ]
    return entries


def _may_be_board(folder: Path) -> bool:
    """Whether it is a problem folder, or one that can't be looked into and may hide another of its name."""
    return os.path.isdir(folder) and (os.path.isfile(folder / FILE_NAME) or not os.access(folder, os.X_OK))


def _loaded(folder: Path) -> Board | HarnessError:
    try:
        return load_board(folder)
    except HarnessError as error:
        return error

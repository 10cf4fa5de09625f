"""Finding what a user names: a submission by its id, a board by its name."""

from __future__ import annotations

from harness.boards.board import Board
from harness.errors import HarnessError, RequestError
from harness.store import Reader, SubmissionRow


def find_submission(reader: Reader, submission_id: int) -> SubmissionRow:
    """The submission of that id; RequestError when there is none."""
    submission = reader.submission(submission_id)
    if submission is None:
        last = reader.last_submission_id()
        raise RequestError(
            f"there is no submission {submission_id}",
            allowed="" if last is None else f"1 to {last}",
            hint="`harness history` lists yours." if last else "The store is empty; `harness submit FILE` fills it.",
        )
    return submission


def name_to_type(board: Board, typed: str) -> str:
    """What names a board on a command line: its name, where the search for it finds this very board, else what the
    user `typed`, which found it."""
    if "/" not in typed and typed.casefold() == board.name.casefold():
        return board.name
    from harness.boards.find import find_board

    try:
        found = find_board(board.name)
    except HarnessError:
        return typed
    return board.name if found.folder == board.folder else typed


def recorded_board(reader: Reader, board: str) -> str:
    """The name under which a board's submissions are kept, from its name, an alias or its folder.

    A board that has submissions need not exist any more. RequestError when there is neither.
    """
    if reader.has_leaderboard(board):
        return board
    from harness.boards.find import find_board

    return find_board(board).name

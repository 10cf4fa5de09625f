"""Finding what a user names: a submission by its id or a tag, a board by its name."""

from __future__ import annotations

from harness.boards.board import Board
from harness.cli.common import MOST_WHOLE, default_user
from harness.cli.formatting import printable_name
from harness.errors import HarnessError, RequestError
from harness.store import Reader, SubmissionRow


def find_submission(reader: Reader, submission_id: int) -> SubmissionRow:
    """The submission of that id; RequestError when there is none."""
    submission = reader.submission(submission_id)
    if submission is None:
        last = reader.last_submission_id()
        if last is not None and 1 <= submission_id < last:
            raise RequestError(
                f"submission {submission_id} is not there (deleted?); the last is {last}",
                hint="`harness history` lists yours.",
            )
        raise RequestError(
            f"there is no submission {submission_id}",
            allowed="" if last is None else f"1 to {last}",
            hint="`harness history` lists yours." if last else "The store is empty; `harness submit FILE` fills it.",
        )
    return submission


def is_id(text: str) -> bool:
    """All digits, and no more of them than an id can have."""
    return text.isascii() and text.isdigit() and len(text) <= len(str(MOST_WHOLE))


def named_submission(reader: Reader, text: str, user: str | None = None) -> SubmissionRow:
    """The submission of that id, or the one of the user's (`None`: whoever calls) that has that tag: see
    `tagged_submission`. Raises RequestError where there is none, and where several have the tag."""
    if is_id(text):
        return find_submission(reader, int(text))
    submission = tagged_submission(reader, text, user)
    if submission is not None:
        return submission
    whose = user if user is not None else default_user()
    raise RequestError(
        f"{whose} has no submission with the tag '{text}'",
        allowed="a submission's id, or a tag that one of them has",
        hint="`harness history` lists them; `harness note ID --tag TAG` tags one.",
    )


def tagged_submission(
    reader: Reader, tag: str, user: str | None = None, board: str | None = None
) -> SubmissionRow | None:
    """The one submission of the user's that has a tag; None when there is none.

    Of several, the one on that board, or where none is given, on the board of the user's latest submission.
    RequestError when that leaves none or several.
    """
    whose = user if user is not None else default_user()
    found = [find_submission(reader, id) for id in reader.tagged(whose, tag)] if is_storable(tag) else []
    if len(found) < 2:
        return found[0] if found else None
    if board is None and (latest := reader.latest_submission(whose)) is not None:
        board = latest.leaderboard
    there = [submission for submission in found if submission.leaderboard == board]
    if len(there) == 1:
        return there[0]
    several = there or found
    where = f" on {board}" if there else ""
    raise RequestError(
        f"{len(several)} submissions{where} have the tag '{tag}'",
        allowed=f"one of their ids: {', '.join(str(each.id) for each in several)}",
        hint=f"`harness note {several[0].id} --untag {tag}` takes it from {several[0].id}.",
    )


def other_owner(submission: SubmissionRow) -> str:
    """Whose it is, where that is not the user who calls; else empty."""
    return submission.user if submission.user != default_user() else ""


def belongs(owner: str) -> str:
    return f"belongs to {printable_name(owner)}"


def is_storable(text: str) -> bool:
    """Whether a store can hold a text, and can be asked for it: no NUL, and no byte that is not UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


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
    if is_storable(board) and reader.has_leaderboard(board):
        return board
    from harness.boards.find import find_board

    return find_board(board).name

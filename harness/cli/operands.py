"""What `diff`, `compare` and `compile` are given: a submission by its id, a file, or a submission by a tag."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.boards.directives import MAX_BYTES
from harness.cli.common import default_user
from harness.cli.formatting import printable, printable_name
from harness.cli.lookup import find_submission, is_id, is_storable, recorded_board, tagged_submission
from harness.errors import RequestError, did_you_mean
from harness.files import files_beside, reason_of
from harness.store import EvaluationRow, Reader, SubmissionRow


@dataclass(frozen=True)
class Side:
    """One operand: a submission, or a file on disk (then `submission` is None and it has no figures)."""

    source: str
    file_name: str
    submission: SubmissionRow | None
    evaluations: Sequence[EvaluationRow] = ()

    @property
    def title(self) -> str:
        if self.submission is None:
            return printable_name(f"{self.file_name} (file)")
        s = self.submission
        return printable_name(f"{s.id} · {s.leaderboard} · {s.file_name} · {s.user}")

    @property
    def where(self) -> str:
        """What names it in an error, a line's number after it."""
        return self.file_name if self.submission is None else f"submission {self.submission.id}, {self.file_name}"

    @property
    def short(self) -> str:
        """`12` for a submission, the file's name for a file."""
        return printable_name(Path(self.file_name).name) if self.submission is None else str(self.submission.id)


def both_operands(
    reader: Reader, old: str, new: str, user: str | None = None, board: str | None = None, *, with_figures: bool = True
) -> tuple[Side, Side]:
    """The sides that two operands name. A tag that the user has on several boards is that of the option's `board`, or
    of the other operand's. RequestError when there is no such thing."""

    def side(text: str, on: str | None) -> Side:
        named = submission_named(reader, text, user, on)
        return of_file(text) if named is None else of_submission(reader, named, with_figures=with_figures)

    # First those that say their board alone; each is read once, since it may be a pipe.
    waits = [board is None and _is_on_several(reader, text, user) for text in (old, new)]
    first = None if waits[0] else side(old, board)
    second = side(new, _board_of(reader, first) if waits[1] else board)
    return first or side(old, None if waits[1] else _board_of(reader, second)), second


def _is_on_several(reader: Reader, text: str, user: str | None) -> bool:
    """Whether an operand is a tag that several of the user's submissions have."""
    if is_id(text) or os.path.exists(text) or not is_storable(text):
        return False
    return len(reader.tagged(user if user is not None else default_user(), text)) > 1


def _board_of(reader: Reader, side: Side | None) -> str | None:
    named = None if side is None else header_board(side)
    return None if named is None else recorded_board(reader, named)


def submission_named(
    reader: Reader, text: str, user: str | None = None, board: str | None = None
) -> SubmissionRow | None:
    """The submission of that id, where the text is all digits; else of that tag of the user's (None: the caller's),
    where no file is called so; else None. RequestError for an id that there is not, and a tag of several (see
    `tagged_submission`)."""
    if is_id(text):
        return find_submission(reader, int(text))
    return None if os.path.exists(text) else tagged_submission(reader, text, user, board)


def of_submission(reader: Reader, submission: SubmissionRow, *, with_figures: bool = True) -> Side:
    evaluations = reader.evaluations(submission.id, with_rank=False) if with_figures else []
    return Side(reader.source(submission.sha256), submission.file_name, submission, evaluations)


def of_file(text: str) -> Side:
    try:
        with open(text, encoding="utf-8-sig") as file:
            source = file.read(MAX_BYTES + 1)  # a pipe will do; a device may be endless
    except UnicodeDecodeError as error:
        raise RequestError("the file is not UTF-8 text", where=text) from error
    except FileNotFoundError as error:
        raise RequestError(
            "there is no such file, nor a submission of yours with such a tag",
            where=text,
            allowed="the id of a submission (digits), a file, or a tag of yours",
            hint=did_you_mean(text, files_beside(text)) or "`harness history` shows ids and tags.",
        ) from error
    except IsADirectoryError as error:
        raise RequestError("it is a folder", where=text, allowed="a file, an id or a tag") from error
    except (OSError, ValueError) as error:
        raise RequestError(f"can't be read: {reason_of(error)}", where=text) from error
    if len(source) > MAX_BYTES:
        raise RequestError("the file is too large", where=text, allowed=f"at most {MAX_BYTES:,} characters")
    return Side(source, text, None)


def predecessor(reader: Reader, submission: SubmissionRow) -> Side:
    if submission.previous is None:
        raise RequestError(
            f"submission {submission.id} is the first of {printable(submission.user)} on {submission.leaderboard}",
            hint="Name two: `harness diff OLD NEW`, each an id or a file.",
        )
    return of_submission(reader, find_submission(reader, submission.previous))


def header_board(side: Side) -> str | None:
    """The board that a side is for: that of the submission, or of the file's header; None when it names none."""
    if side.submission is not None:
        return side.submission.leaderboard
    from harness.boards.directives import parse_directives

    return parse_directives(side.source, side.file_name).leaderboard


def board_of_file(side: Side) -> str:
    board = header_board(side)
    if board is None:
        raise RequestError(
            "the file's header names no board", where=side.file_name, hint="Say which with --leaderboard BOARD."
        )
    return board


def common_board(reader: Reader, sides: Sequence[Side], option: str | None) -> str:
    """The one board that both sides and the option name, by its own name. RequestError when they name two, or none."""
    named = [(f"{side.short}", header_board(side)) for side in sides] + [("--leaderboard", option)]
    boards: dict[str, str] = {}
    for what, name in named:
        if name is not None:
            boards.setdefault(recorded_board(reader, name), f"{what} is for {name}")
    if not boards:
        raise RequestError("neither file names a board", hint="Say which with --leaderboard BOARD.")
    if len(boards) > 1:
        raise RequestError(f"times of different boards are not compared: {', '.join(boards.values())}")
    return next(iter(boards))

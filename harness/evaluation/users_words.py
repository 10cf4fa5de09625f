"""A case's record in the words of whoever wrote the file: its own name, what it printed, what this machine lacks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from harness.boards.board import Board
from harness.evaluation.host import CODE, submission_file
from harness.evaluation.printed import printed_note
from harness.evaluation.record import CaseResult, Reason, ReasonCode, Status

NO_DEVICE = "this machine has no CUDA device; `harness compile FILE --arch sm_90a` works here"
_WANTS_CUDA = re.compile(r"cuda|nvcc|nvrtc|nvidia|active drivers", re.IGNORECASE)
_IN_TORCH_CUDA = re.compile(r'File "[^"]*/torch/cuda/')
"""Some of torch's functions fail on a machine without a device in words that name none."""


def in_the_users_words(
    result: CaseResult, board: Board, file_name: str, *, cuda: bool, printed: int = 0, log: Path | None = None
) -> CaseResult:
    """The record with the file under the name that the user gave it, with a note on what was `printed` to `log`, and
    with a hint where it failed for want of a CUDA device; `cuda` says whether this machine has one."""
    if printed > 0 and log is not None:
        result = replace(result, notes=(*result.notes, printed_note(printed, log)))
    if result.status is Status.PASSED or result.reason is None:
        return result
    reason, traceback = failure_in_the_users_words(result.reason, result.traceback, board, file_name, cuda=cuda)
    return replace(result, reason=reason, traceback=traceback)


def failure_in_the_users_words(
    reason: Reason, traceback: str, board: Board, file_name: str, *, cuda: bool
) -> tuple[Reason, str]:
    """The reason and the traceback of a failure in the same way."""
    laid_out = submission_file(board)
    path = re.compile(rf'File "[^"]*/{CODE}/{re.escape(laid_out)}"')
    traceback = path.sub(lambda found: f'File "{file_name}"', traceback)
    message = reason.message.replace(f"({laid_out}, line", f"({file_name}, line")
    if not cuda and _wants_device(reason, traceback):
        message = f"{message.rstrip('.')}; {NO_DEVICE}"
    return replace(reason, message=message), traceback


def _wants_device(reason: Reason, traceback: str) -> bool:
    """Whether a failure looks like that of code for a device. The texts are the submission's: a hint follows, no
    verdict."""
    if reason.code not in (ReasonCode.EXCEPTION, ReasonCode.IMPORT_FAILED):
        return False
    return bool(_WANTS_CUDA.search(reason.message) or _IN_TORCH_CUDA.search(traceback))

"""A case's record in the words of whoever wrote the file: its own name, what it printed, what this machine lacks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from harness.boards.board import Board
from harness.evaluation.host import CODE, submission_file
from harness.evaluation.printed import printed_note
from harness.evaluation.record import CaseResult, ReasonCode, Status

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
    if result.status is Status.PASSED:
        return result
    laid_out = submission_file(board)
    path = re.compile(rf'File "[^"]*/{CODE}/{re.escape(laid_out)}"')
    result = replace(result, traceback=path.sub(f'File "{file_name}"', result.traceback))
    if result.reason is None:
        return result
    message = result.reason.message.replace(f"({laid_out}, line", f"({file_name}, line")
    if not cuda and _wants_device(result):
        message = f"{message.rstrip('.')}; {NO_DEVICE}"
    return replace(result, reason=replace(result.reason, message=message))


def _wants_device(result: CaseResult) -> bool:
    """Whether a failure looks like that of code for a device. The texts are the submission's: a hint follows, no
    verdict."""
    if result.reason is None or result.reason.code not in (ReasonCode.EXCEPTION, ReasonCode.IMPORT_FAILED):
        return False
    return bool(_WANTS_CUDA.search(result.reason.message) or _IN_TORCH_CUDA.search(result.traceback))

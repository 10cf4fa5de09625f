"""What a submission printed, as a note on the case in which it did: written and read here, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.evaluation.record import CaseResult
from harness.wording import counted

_NOTE = re.compile(r"it printed ([\d,]+) bytes?: (.+)", re.DOTALL)


def printed_note(size: int, log: Path | str) -> str:
    """`it printed 1,200 bytes: LOG`."""
    return f"it printed {counted(size, 'byte')}: {log}"


def is_printed_note(note: str) -> bool:
    return _NOTE.fullmatch(note) is not None


def printed_logs(cases: Iterable[CaseResult]) -> dict[str, int]:
    """How many bytes went to each log, over all cases."""
    sizes: dict[str, int] = {}
    for case in cases:
        for note in case.notes:
            if found := _NOTE.fullmatch(note):
                log = found.group(2)
                sizes[log] = sizes.get(log, 0) + int(found.group(1).replace(",", ""))
    return sizes

"""Reading a file into the store, batch by batch; what is bad is reported and the rest goes in."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import RequestError
from harness.store.bulk import Added, BulkWriter, NewSubmission
from harness.transfer import lines, published
from harness.transfer.errors import BadRow, RowError

Report = Callable[[BadRow], None]
T = TypeVar("T")

BATCH_ROWS = 5000
BATCH_BYTES = 10 << 20
"""A batch ends at either: texts are what fills memory."""
LONGEST_LINE_BYTES = 64 << 20


def import_parquet(writer: BulkWriter, path: Path, report: Report, told: Callable[[int], None]) -> Added:
    """Add the rows of a parquet file of the published data."""
    from harness.transfer import parquet

    return _add(writer, _converted(parquet.read_rows(path), published.submission_of, report), told)


def import_lines(writer: BulkWriter, path: Path, report: Report, told: Callable[[int], None]) -> Added:
    """Add the submissions of a file of JSON lines, compressed if its name ends in .gz."""
    return _add(writer, _converted(_lines(path), lines.submission_of, report), told)


def _converted(
    rows: Iterable[tuple[int, Any]], convert: Callable[[Any], NewSubmission], report: Report
) -> Iterator[tuple[int, NewSubmission]]:
    for number, row in rows:
        try:
            yield number, convert(row)
        except RowError as error:
            report(BadRow(number, str(error)))


def _add(writer: BulkWriter, rows: Iterable[tuple[int, NewSubmission]], told: Callable[[int], None]) -> Added:
    batch: list[NewSubmission] = []
    size = 0
    for number, submission in rows:
        batch.append(submission)
        size += len(submission.source_text) + 2000 * sum(len(each.cases) for each in submission.evaluations)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            writer.add(batch)
            told(number)
            batch, size = [], 0
    if batch:
        writer.add(batch)
    return writer.added


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1, without the first, which names the format, and empty ones.

    Raises RequestError for a file that can't be read, or is not of this kind.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            number = 0
            while raw := file.readline(LONGEST_LINE_BYTES):
                number += 1
                line = raw.decode("utf-8", "surrogateescape")  # a line that is not UTF-8 is that line's fault alone
                if number == 1:
                    _check_first(path, line)
                elif line.strip():
                    yield number, line
            if not number:
                _check_first(path, "")
    except (OSError, EOFError, zlib.error) as error:
        raise RequestError(f"can't be read: {getattr(error, 'strerror', None) or error}", where=str(path)) from error


def _check_first(path: Path, line: str) -> None:
    try:
        if lines.is_first_line(line):
            return
    except RowError as error:
        raise RequestError(str(error), where=str(path), hint="Upgrade harness.") from error
    raise RequestError(
        "this is no file of `harness export`: its first line does not say so",
        where=str(path),
        allowed="JSON lines that `harness export` wrote, or a parquet file of the published data",
    )

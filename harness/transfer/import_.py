"""Reading a file into the store, batch by batch; what is bad is reported and the rest goes in."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.store.bulk import Added, BulkWriter, NewSubmission
from harness.store.calibrations import Calibration
from harness.transfer import lines, published
from harness.transfer.errors import BadRow, RowError

Report = Callable[[BadRow], None]
Record = NewSubmission | Calibration

BATCH_ROWS = 5000
BATCH_BYTES = 10 << 20
"""A batch ends at either: texts are what fills memory."""
LONGEST_LINE_BYTES = 64 << 20


def import_parquet(writer: BulkWriter, path: Path, report: Report, told: Callable[[int], None]) -> Added:
    """Add the rows of a parquet file of the published data."""
    from harness.transfer import parquet

    return _add(writer, _converted(parquet.read_rows(path), published.submission_of, report), told)


def import_lines(writer: BulkWriter, path: Path, report: Report, told: Callable[[int], None]) -> Added:
    """Add the submissions and calibrations of a file of JSON lines, compressed if its name ends in .gz."""
    return _add(writer, _converted(_lines(path), lines.record_of, report), told)


def _converted(
    rows: Iterable[tuple[int, Any]], convert: Callable[[Any], Record], report: Report
) -> Iterator[tuple[int, Record]]:
    for number, row in rows:
        try:
            yield number, convert(row)
        except RowError as error:
            report(BadRow(number, str(error)))


def _add(writer: BulkWriter, rows: Iterable[tuple[int, Record]], told: Callable[[int], None]) -> Added:
    batch: list[Record] = []
    size = 0
    for number, record in rows:
        batch.append(record)
        size += _size(record)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            _add_batch(writer, batch)
            told(number)
            batch, size = [], 0
    if batch:
        _add_batch(writer, batch)
    return writer.added


def _add_batch(writer: BulkWriter, batch: list[Record]) -> None:
    submissions = [record for record in batch if isinstance(record, NewSubmission)]
    calibrations = [record for record in batch if not isinstance(record, NewSubmission)]
    if submissions:
        writer.add(submissions)
    if calibrations:
        writer.add_calibrations(calibrations)


def _size(record: Record) -> int:
    """About how many bytes of text it has."""
    if not isinstance(record, NewSubmission):
        return 2000
    reports = sum(len(each.report) for each in record.compilations)
    return len(record.source_text) + reports + 2000 * sum(len(each.cases) for each in record.evaluations)


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

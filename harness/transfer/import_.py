"""Reading a file into the store, batch by batch; what is bad is reported and the rest goes in."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.store.bulk import Added, BulkWriter, NewSubmission
from harness.store.calibrations import Calibration
from harness.transfer import line_files, lines, published
from harness.transfer.errors import BadRow, DamagedFile, RowError

Report = Callable[[BadRow], None]
Record = NewSubmission | Calibration

BATCH_ROWS = 2000
BATCH_BYTES = 4 << 20
"""A batch ends at either: texts are what fills memory, and while one is written the next is made."""


def coming(path: Path) -> int:
    """How many rows a parquet file has, by its own word. (Lines take so long to convert that the database waits.)"""
    from harness.transfer import parquet

    return parquet.count_rows(path)


def import_parquet(writer: BulkWriter, path: Path, report: Report, told: Callable[[int], None]) -> Added:
    """Add the rows of a parquet file of the published data. Raises DamagedFile when what can be read of it is in."""
    from harness.transfer import parquet

    return _add(writer, _converted(parquet.read_rows(path), published.submission_of, report), told)


def import_lines(writer: BulkWriter, path: Path, report: Report, told: Callable[[int], None]) -> Added:
    """Add the submissions and calibrations of a file of JSON lines, compressed if its name ends in .gz.

    Raises DamagedFile when what can be read of it is in.
    """
    return _add(writer, _converted(line_files.read_lines(path), lines.record_of, report), told)


def _converted(
    rows: Iterable[tuple[int, Any]], convert: Callable[[Any], Record], report: Report
) -> Iterator[tuple[int, Record]]:
    for number, row in rows:
        try:
            yield number, convert(row)
        except RowError as error:
            report(BadRow(number, str(error), published.submission_id_of(row)))


def _add(writer: BulkWriter, rows: Iterable[tuple[int, Record]], told: Callable[[int], None]) -> Added:
    batch: list[Record] = []
    size = 0
    damage = None
    try:
        with _no_garbage_collection():
            for number, record in rows:
                batch.append(record)
                size += _size(record)
                if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                    _add_batch(writer, batch)
                    told(number)
                    batch, size = [], 0
    except DamagedFile as error:
        damage = error
    if batch:
        _add_batch(writer, batch)
    if damage is not None:
        raise damage
    return writer.added


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Records refer to no record before them, and looking for cycles takes longer the more there are."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
    size = len(record.source_text)
    for compilation in record.compilations:
        size += len(compilation.report)
    for evaluation in record.evaluations:
        size += 2000 * len(evaluation.cases)
    return size

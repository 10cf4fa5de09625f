"""Reading and writing the published data's parquet files, a few rows at a time. Imports pyarrow when it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.doctor.advice import install_extra
from harness.errors import MachineError, RequestError
from harness.transfer.errors import DamagedFile
from harness.transfer.published import COLUMNS, REQUIRED

ROWS_AT_ONCE = 1000
ROWS_A_GROUP = 5000
"""Small row groups: whoever reads the file may read a part of it."""
_BUFFER_BYTES = 1 << 20


def read_rows(path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The rows of a file with their numbers from 1: values in the order of `published.COLUMNS`, times in microseconds.

    Columns that the file lacks are None. Raises RequestError for a file that is not parquet, lacks a required column
    or has one of another kind; DamagedFile after the last row that can be read; MachineError without pyarrow.
    """
    pa, pq = _pyarrow()
    try:
        # Buffered, so that one huge row group, as published files have them, is not read as a whole.
        file = pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise RequestError(f"this can't be read as a parquet file: {error}", where=str(path)) from error
    with file:
        present = [name for name in COLUMNS if name in file.schema_arrow.names]
        missing = [name for name in REQUIRED if name not in present]
        if missing:
            raise RequestError(
                f"the file has no column {', '.join(missing)}",
                where=str(path),
                allowed=f"the published data's columns: {', '.join(COLUMNS)}",
            )
        _check_kinds(file.schema_arrow, path)
        number = 0
        try:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=present, use_threads=False):
                columns = {name: _values(pa, batch.column(name), name) for name in present}
                empty = [None] * batch.num_rows
                for row in zip(*(columns.get(name, empty) for name in COLUMNS), strict=True):
                    number += 1
                    yield number, row
        except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
            why = " ".join(str(error).split())
            raise DamagedFile(f"the file is damaged after row {number}: {why}", where=str(path)) from error


def count_rows(path: Path) -> int:
    """How many rows a file says that it has; 0 for one that `read_rows` refuses."""
    pa, pq = _pyarrow()
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError):
        return 0


def write_rows(path: Path, rows: Iterable[tuple[Any, ...]]) -> int:
    """Write rows as `read_rows` gives them, in the published data's schema; how many."""
    pa, pq = _pyarrow()
    schema = _schema(pa)
    count = 0
    with pq.ParquetWriter(path, schema, compression="snappy", write_page_checksum=True) as writer:
        for group in _groups(rows, ROWS_A_GROUP):
            columns = [
                pa.array(values, pa.int64() if field.name == "submission_time" else field.type).cast(field.type)
                for values, field in zip(zip(*group, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            count += len(group)
    return count


def _groups(rows: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    group: list[tuple[Any, ...]] = []
    for row in rows:
        group.append(row)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _schema(pa: Any) -> Any:
    """The published data's schema, column by column."""
    kinds = {
        "submission_id": pa.int64(),
        "leaderboard_id": pa.int64(),
        "code_id": pa.int64(),
        "submission_time": pa.timestamp("us", tz="UTC"),
        "score": pa.float64(),
        "passed": pa.bool_(),
    }
    return pa.schema([(name, kinds.get(name, pa.large_string())) for name in COLUMNS])


def _check_kinds(schema: Any, path: Path) -> None:
    import pyarrow.types as kinds

    def text(kind: Any) -> bool:
        return kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind) or _text_behind(kind)

    def _text_behind(kind: Any) -> bool:
        return kinds.is_dictionary(kind) and text(kind.value_type)

    def number(kind: Any) -> bool:
        return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_null(kind)

    wanted = {
        **dict.fromkeys(COLUMNS, (text, "text")),
        **dict.fromkeys(("leaderboard_id", "code_id", "score"), (number, "numbers")),
        "user_id": (lambda kind: text(kind) or kinds.is_integer(kind), "text"),
        "submission_id": (kinds.is_integer, "whole numbers"),
        "submission_time": (kinds.is_timestamp, "timestamps"),
        "passed": (lambda kind: kinds.is_boolean(kind) or kinds.is_null(kind), "true or false"),
    }
    for field in schema:
        check, word = wanted.get(field.name, (None, ""))
        if check is not None and not check(field.type):
            raise RequestError(f"the column {field.name} holds {field.type}", where=str(path), allowed=word)


def _values(pa: Any, column: Any, name: str) -> list[Any]:
    if name == "submission_time":
        # Without a zone it is UTC, as the hosted service keeps its times.
        return list(column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist())
    if name in ("leaderboard_id", "code_id"):
        # Tools that know no missing whole numbers write floats and NaN.
        return [None if value is None or value != value else int(value) for value in column.to_pylist()]
    if name == "user_id":
        return list(column.cast(pa.large_string()).to_pylist())
    return list(column.to_pylist())


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MachineError(
            "parquet files take pyarrow, which is not installed",
            hint=f"Install it with `{install_extra('data')}`, or use JSON lines (a name that ends in .jsonl).",
        ) from error
    return pyarrow, pyarrow.parquet

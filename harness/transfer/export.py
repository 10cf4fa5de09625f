"""Reading the whole store page by page, and writing it to a file."""

from __future__ import annotations

import errno
import gzip
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from harness.errors import MachineError, RequestError
from harness.files import replacing
from harness.store import queries
from harness.store.database import Database
from harness.store.reading import Reader
from harness.transfer import calibration_lines, lines, published_rows
from harness.transfer.fields import in_ascii

_PAGE = 200


@dataclass(frozen=True)
class Page:
    """Some submissions with their texts, and what belongs to them, each in order."""

    submissions: list[Mapping[str, Any]]
    evaluations: Mapping[int, list[Mapping[str, Any]]]
    cases: Mapping[int, list[Mapping[str, Any]]]
    notes: Mapping[int, list[Mapping[str, Any]]]
    tags: Mapping[int, list[Mapping[str, Any]]]
    compiled: frozenset[str]
    """The sources that compile mode has said something of."""


@dataclass(frozen=True)
class Written:
    """How many of each."""

    submissions: int
    calibrations: int


def pages(db: Database, leaderboard: str | None, user: str | None, *, whole: bool) -> Iterator[Page]:
    """Every submission, of one board and user if these are given, in order of id; `whole` reads the cases too."""
    filters = [
        condition
        for condition, wanted in ((queries.ONLY_BOARD, leaderboard), (queries.ONLY_USER, user))
        if wanted is not None
    ]
    sql = queries.PAGE.format(filters=" ".join(filters))
    parameters = {"leaderboard": leaderboard, "user": user, "limit": _PAGE, "after": 0}
    while submissions := db.rows(sql, parameters):
        ids = [row["id"] for row in submissions]
        parameters["after"] = ids[-1]
        evaluations = _of(db, "evaluations", "submission_id", ids)
        evaluation_ids = [row["id"] for rows in evaluations.values() for row in rows]
        yield Page(
            submissions,
            evaluations,
            _of(db, "case_results", "evaluation_id", evaluation_ids) if whole else {},
            _of(db, "notes", "submission_id", ids) if whole else {},
            _of(db, "tags", "submission_id", ids, order="tag") if whole else {},
            _compiled(db, submissions) if whole else frozenset(),
        )


def export_lines(
    reader: Reader,
    path: Path | None,
    leaderboard: str | None,
    user: str | None,
    told: Callable[[int], None],
    *,
    ascii_only: bool = False,
) -> Written:
    """Write JSON lines to a file (compressed if its name ends in .gz) or to standard output; `ascii_only` escapes all
    other characters, for a stream that has none."""
    db = reader.database
    store_id = "" if db is None else str(db.value(queries.INFO, {"key": "store_id"}))
    count = calibrations = 0
    with _writing(path) as file:

        def write(line: str) -> None:
            file.write((in_ascii(line) if ascii_only else line) + "\n")

        write(lines.first_line(store_id))
        for line in _calibrations(db, leaderboard) if db is not None else ():
            write(line)
            calibrations += 1
        for page in pages(db, leaderboard, user, whole=True) if db is not None else ():
            for submission in page.submissions:
                line = lines.line_of(
                    store_id,
                    submission,
                    page.evaluations.get(submission["id"], []),
                    page.cases,
                    page.notes.get(submission["id"], []),
                    [row["tag"] for row in page.tags.get(submission["id"], [])],
                    _compilations(reader, page, submission["source_sha256"]),
                )
                write(line)
            count += len(page.submissions)
            told(count)
    return Written(count, calibrations)


def export_parquet(
    reader: Reader, path: Path, leaderboard: str | None, user: str | None, told: Callable[[int], None]
) -> int:
    """Write a parquet file in the published data's schema; how many rows."""
    from harness.transfer import parquet

    def rows() -> Iterator[tuple[Any, ...]]:
        count = 0
        for page in pages(reader.database, leaderboard, user, whole=False) if reader.database is not None else ():
            for submission in page.submissions:
                yield from published_rows.rows_of(submission, page.evaluations.get(submission["id"], []))
            count += len(page.submissions)
            told(count)

    with _replacing(path) as unfinished:
        return parquet.write_rows(unfinished, rows())


def _calibrations(db: Database, leaderboard: str | None) -> Iterator[str]:
    """The lines of every calibration; of the noise between runs on one board alone, if that is given."""
    for kind, table in calibration_lines.TABLES.items():
        of_board = kind == calibration_lines.NOISE and leaderboard is not None
        sql = queries.CALIBRATIONS_PAGE.format(table=table, filters=queries.ONLY_OF_BOARD if of_board else "")
        parameters = {"leaderboard": leaderboard, "limit": _PAGE, "after": 0}
        while rows := db.rows(sql, parameters):
            parameters["after"] = rows[-1]["id"]
            yield from (calibration_lines.line_of(kind, row) for row in rows)


def _compiled(db: Database, submissions: list[Mapping[str, Any]]) -> frozenset[str]:
    shas = {row["source_sha256"] for row in submissions}
    return frozenset(row[0] for row in db.look_up("compilations", "source_sha256", shas, "source_sha256"))


def _compilations(reader: Reader, page: Page, sha256: str) -> list[Mapping[str, Any]]:
    """What compile mode said of a source: read for each by itself, since a report may be long."""
    db = reader.database
    if db is None or sha256 not in page.compiled:
        return []
    return sorted(
        _of(db, "compilations", "source_sha256", [sha256], order="architecture")[sha256], key=itemgetter("leaderboard")
    )


def _of(db: Database, table: str, key: str, ids: list[Any], order: str = "id") -> dict[Any, list[Mapping[str, Any]]]:
    """The rows of a table by the id that they belong to, in order."""
    found: dict[Any, list[Mapping[str, Any]]] = {}
    if ids:
        names = db.columns(table)
        rows = [dict(zip(names, row, strict=True)) for row in db.look_up(table, key, ids, ", ".join(names))]
        for row in sorted(rows, key=lambda row: row[order]):
            found.setdefault(row[key], []).append(row)
    return found


@contextmanager
def _writing(path: Path | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with _replacing(path) as unfinished:
        if path.suffix == ".gz":
            with gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=5) as file:
                yield file
        else:
            with open(unfinished, "w", encoding="utf-8") as file:
                yield file


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """`files.replacing`, with an error that a user understands."""
    try:
        with replacing(path) as unfinished:
            yield unfinished
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error  # pyarrow's own words have its insides in them
        kind = RequestError if error.errno in _OF_THE_REQUEST else MachineError
        raise kind(f"can't be written: {why}", where=str(path)) from error


_OF_THE_REQUEST = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)
"""What is wrong with the path itself: another would do."""

"""Reading the whole store page by page, and writing it to a file."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.errors import MachineError
from harness.store import queries
from harness.store.database import Database
from harness.store.reading import Reader
from harness.transfer import lines, published

_PAGE = 200


@dataclass(frozen=True)
class Page:
    """Some submissions with their texts, and what belongs to them, each in order."""

    submissions: list[Mapping[str, Any]]
    evaluations: Mapping[int, list[Mapping[str, Any]]]
    cases: Mapping[int, list[Mapping[str, Any]]]
    notes: Mapping[int, list[Mapping[str, Any]]]
    tags: Mapping[int, list[Mapping[str, Any]]]


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
        )


def export_lines(
    reader: Reader, path: Path | None, leaderboard: str | None, user: str | None, told: Callable[[int], None]
) -> int:
    """Write JSON lines to a file (compressed if its name ends in .gz) or to standard output; how many submissions."""
    db = reader.database
    store_id = "" if db is None else str(db.value(queries.INFO, {"key": "store_id"}))
    count = 0
    with _writing(path) as file:
        file.write(lines.first_line(store_id) + "\n")
        for page in pages(db, leaderboard, user, whole=True) if db is not None else ():
            for submission in page.submissions:
                line = lines.line_of(
                    store_id,
                    submission,
                    page.evaluations.get(submission["id"], []),
                    page.cases,
                    page.notes.get(submission["id"], []),
                    [row["tag"] for row in page.tags.get(submission["id"], [])],
                )
                file.write(line + "\n")
            count += len(page.submissions)
            told(count)
    return count


def export_parquet(
    reader: Reader, path: Path, leaderboard: str | None, user: str | None, told: Callable[[int], None]
) -> int:
    """Write a parquet file in the published data's schema; how many rows."""
    from harness.transfer import parquet

    def rows() -> Iterator[tuple[Any, ...]]:
        count = 0
        for page in pages(reader.database, leaderboard, user, whole=False) if reader.database is not None else ():
            for submission in page.submissions:
                yield from published.rows_of(submission, page.evaluations.get(submission["id"], []))
            count += len(page.submissions)
            told(count)

    with _replacing(path) as unfinished:
        return parquet.write_rows(unfinished, rows())


def _of(db: Database, table: str, key: str, ids: list[int], order: str = "id") -> dict[int, list[Mapping[str, Any]]]:
    """The rows of a table by the id that they belong to, in order."""
    found: dict[int, list[Mapping[str, Any]]] = {}
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
    """A name beside `path` to write to, that takes its place when all is written."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except OSError as error:
        raise MachineError(f"can't be written: {error.strerror or error}", where=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)

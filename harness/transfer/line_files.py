"""Reading a file of JSON lines, compressed or not: its lines by number, and what is wrong with it as a file."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from harness.errors import RequestError
from harness.transfer import lines
from harness.transfer.errors import DamagedFile, RowError

LONGEST_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


def read_lines(path: Path) -> Iterator[tuple[int, str | None]]:
    """The lines with their numbers from 1, without the first, which names the format, and empty ones; None in place of
    one that is longer than `LONGEST_LINE_BYTES`.

    Raises RequestError for a file that can't be read or is not of this kind, before any line; DamagedFile after the
    last whole line of one that is cut short, or that can't be read any further.
    """
    number = 0
    try:
        compressed = path.suffix == ".gz"
        if compressed and path.is_file():
            _check_compressed(path)
        with cast(IO[bytes], gzip.open(path, "rb")) if compressed else open(path, "rb") as file:
            for number, raw in _numbered(file):
                # A line that is not UTF-8 is that line's fault alone.
                line = None if raw is None else raw.decode("utf-8", "surrogateescape")
                if number == 1:
                    _check_first(path, line or "")
                elif line is not None and _is_cut_short(line):
                    raise DamagedFile(_cut_short(number - 1), where=str(path))
                elif line is None or line.strip():
                    yield number, line
        if not number:
            _check_first(path, "")
    except EOFError:
        raise DamagedFile(_cut_short(number), where=str(path)) from None
    except (OSError, zlib.error) as error:
        what = f"can't be read: {getattr(error, 'strerror', None) or error}"
        if number > 1:
            raise DamagedFile(f"after line {number} it {what}", where=str(path)) from error
        raise RequestError(what, where=str(path)) from error


def _numbered(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    number = 0
    while raw := file.readline(LONGEST_LINE_BYTES):
        number += 1
        if len(raw) < LONGEST_LINE_BYTES or raw.endswith(b"\n"):
            yield number, raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST_LINE_BYTES)
        yield number, None


def _is_cut_short(line: str) -> bool:
    """Whether a line is the beginning of one: it has no end, and nor has its object. Only a file's last one may be."""
    if line.endswith("\n") or not line.startswith("{"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    except RecursionError:
        return False
    return False


def _cut_short(number: int) -> str:
    return f"the file is cut short after line {number}"


def _check_compressed(path: Path) -> None:
    """Raise RequestError when what is compressed is not what was written: whatever would be read of it may be wrong,
    and would stand in the place of what is right for ever. That it is cut short is no such fault."""
    try:
        with gzip.open(path, "rb") as file:
            while file.read(_CHUNK_BYTES):
                pass
    except EOFError:
        pass
    except (gzip.BadGzipFile, zlib.error) as error:
        raise RequestError(
            f"the compressed file is damaged: {error}",
            where=str(path),
            hint="Nothing was added. Get a whole copy; for what a damaged one still gives, at your own risk: "
            "gzip -dc FILE > part.jsonl; harness import part.jsonl",
        ) from error


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

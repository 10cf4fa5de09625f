"""Set files: a YAML file beside problem folders that names and dates them, as the public repository has."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from harness.boards.board import Board
from harness.boards.loader import load_board
from harness.boards.names import check_name
from harness.boards.yaml_file import Fields, read_yaml
from harness.files import absolute_path

SUFFIXES = (".yaml", ".yml")

_DEADLINE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?")


@dataclass(frozen=True)
class Problem:
    """One board of a set. `deadline` is the problem's own, else the set's; `gpus` is None where the set names none."""

    folder: Path
    name: str
    deadline: datetime | None
    gpus: tuple[str, ...] | None

    def load(self) -> Board:
        return load_board(self.folder, name=self.name, deadline=self.deadline, gpus=self.gpus)


@dataclass(frozen=True)
class ProblemSet:
    path: Path
    name: str
    deadline: datetime | None
    problems: tuple[Problem, ...]


def is_problem_set(path: Path) -> bool:
    """Whether a YAML file is meant as a set: a line of it starts with `problems:`."""
    try:
        if path.suffix not in SUFFIXES or not os.path.isfile(path):  # a pipe would be waited for
            return False
        return re.search(rb"^problems\s*:", path.read_bytes(), re.MULTILINE) is not None
    except OSError:
        return False


def read_problem_set(path: Path) -> ProblemSet:
    """Read a set file; the boards themselves are not loaded. `directory` is relative to the file's folder.

    Raises RequestError naming file and key.
    """
    fields = read_yaml(path)
    deadline = read_deadline(fields)
    problems: list[Problem] = []
    for row in fields.list_of_fields("problems"):
        directory = row.text("directory")
        if not directory or "\0" in directory:
            raise row.error("not a folder's name", "directory")
        name = check_name(row.text("name"), row.error, "name")
        if name.lower() in (problem.name.lower() for problem in problems):
            raise row.error(f"the name '{name}' is given twice", "name")
        problems.append(
            Problem(
                folder=absolute_path(path.parent / directory),
                name=name,
                deadline=read_deadline(row) or deadline,
                gpus=row.texts("gpus") if "gpus" in row else None,
            )
        )
    return ProblemSet(path, fields.text("name", path.stem), deadline, tuple(problems))


def read_deadline(fields: Fields, key: str = "deadline") -> datetime | None:
    """The moment after which a board takes no submission, in UTC; None for an empty or missing one.

    `YYYY-MM-DD HH:MM` is that minute, `YYYY-MM-DD` the last second of that day. YAML's own dates count alike.
    """
    value = fields.values.get(key)
    if isinstance(value, datetime):
        try:
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        except OverflowError as error:
            raise fields.error(f"{value} is no deadline", key) from error
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, 23, 59, 59, tzinfo=UTC)
    text = fields.text(key, "").strip()
    if not text:
        return None
    match = _DEADLINE.fullmatch(text)
    try:
        if match is None:
            raise ValueError("unknown form")
        year, month, day, hour, minute, second = (None if part is None else int(part) for part in match.groups())
        assert year is not None
        assert month is not None
        assert day is not None
        if hour is None or minute is None:
            return datetime(year, month, day, 23, 59, 59, tzinfo=UTC)
        return datetime(year, month, day, hour, minute, second or 0, tzinfo=UTC)
    except ValueError as error:
        raise fields.error(
            f"'{text}' is no deadline ({error})", key, allowed="YYYY-MM-DD HH:MM (UTC), YYYY-MM-DD, or empty"
        ) from error

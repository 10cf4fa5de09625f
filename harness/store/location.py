"""Where the store is, and what to tell a user when it can't be used."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import MachineError, RequestError

BUSY_TIMEOUT_S = 30.0
_SQLITE = "sqlite:///"


def home() -> Path:
    """`$HARNESS_HOME`, else the platform's folder for a user's data. Not created."""
    if os.environ.get("HARNESS_HOME"):
        return Path(os.environ["HARNESS_HOME"]).expanduser().absolute()
    from platformdirs import user_data_dir

    return Path(user_data_dir("harness"))


def database_url() -> str:
    """`HARNESS_DATABASE_URL`, else that of the SQLite file in `home()`."""
    return os.environ.get("HARNESS_DATABASE_URL") or f"{_SQLITE}{home() / 'harness.sqlite3'}"


def sqlite_path(url: str) -> Path:
    """The file of a `sqlite:///` URL. Raises RequestError for any other."""
    path = url.removeprefix(_SQLITE)
    if path == url or not path:
        raise RequestError(
            "this database is not supported",
            where=f"HARNESS_DATABASE_URL={url.partition('@')[0] if '@' not in url else url.partition(':')[0] + '://…'}",
            allowed="sqlite:////absolute/path.sqlite3",
            hint="Unset HARNESS_DATABASE_URL to use the SQLite file in HARNESS_HOME.",
        )
    return Path(path)


def unisolated_allowed() -> bool:
    """Whether the store's owner lets evaluations rank that ran without isolation."""
    return os.environ.get("HARNESS_RANK_UNISOLATED") == "1"


_EXPLANATIONS = (
    ("readonly", "the store is read-only", "Make the file and its folder writable, or set HARNESS_HOME."),
    ("unable to open", "the store can't be opened", "Check the folder's permissions, or set HARNESS_HOME."),
    ("Permission denied", "the store can't be opened", "Check the folder's permissions, or set HARNESS_HOME."),
    ("Not a directory", "the store's folder is not a folder", "Set HARNESS_HOME to a folder of yours."),
    (
        "not a database",
        "the store is not a SQLite database",
        "Nothing was changed. Restore a copy, or move the file away and a new store is made.",
    ),
    (
        "malformed",
        "the store is damaged",
        "Nothing was changed. Restore a copy, or save what is readable with `sqlite3 FILE .recover`.",
    ),
    ("locked", f"another process kept the store locked for {BUSY_TIMEOUT_S:.0f} s", "Try again when it is done."),
    ("full", "no space is left for the store", "Free some space, or set HARNESS_HOME to another disk."),
)


def explain(error: Exception, where: str) -> MachineError:
    """The error that a user sees for a database error of any driver."""
    text = str(getattr(error, "orig", None) or error)
    for word, what, hint in _EXPLANATIONS:
        if word in text:
            return MachineError(what, where=where, hint=hint)
    return MachineError(f"the store can't be used: {text}", where=where)

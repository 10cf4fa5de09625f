"""Where the store is, and what to tell a user when it can't be used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MachineError, RequestError
from harness.files import absolute_path, user_path

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another to finish, and a reader of a locked SQLite file."""
_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")


@dataclass(frozen=True)
class Location:
    """A store's place: a SQLite file (`path`) or a PostgreSQL database (`dsn`, a libpq URI). One of the two is None."""

    path: Path | None
    dsn: str | None

    @property
    def url(self) -> str:
        return self.dsn if self.dsn is not None else f"{_SQLITE}{self.path}"

    @property
    def shown(self) -> str:
        """The place as a message may name it: no user, no password, no options."""
        if self.dsn is None:
            return str(self.path)
        return "postgresql://" + self.dsn.partition("://")[2].rpartition("@")[2].partition("?")[0]


def home() -> Path:
    """`$HARNESS_HOME`, else the platform's folder for a user's data. Not created.

    Raises RequestError for a HARNESS_HOME that is no path, MachineError for a user without a home folder.
    """
    named = os.environ.get("HARNESS_HOME")
    if named:
        where = f"HARNESS_HOME={named}"
        path = user_path(named, where)
        return path if path.is_absolute() else absolute_path(Path(), where) / path
    from platformdirs import user_data_dir

    try:
        path = Path(user_data_dir("harness"))
    except RuntimeError:
        path = Path("~")
    if not path.is_absolute():  # `~` stays as it is where nobody knows what it means
        raise MachineError("this user has no home folder to keep the store in", hint="Set HARNESS_HOME to a folder.")
    return path


def database_url() -> str:
    """`HARNESS_DATABASE_URL`, else that of the SQLite file in `home()`."""
    return os.environ.get("HARNESS_DATABASE_URL") or f"{_SQLITE}{home() / 'harness.sqlite3'}"


def location(url: str | None = None) -> Location:
    """The place that a URL names, by default `database_url()`. Raises RequestError for a kind that is not supported."""
    url = url or database_url()
    for prefix in _POSTGRES:
        if url.startswith(prefix):
            if not url.isprintable():  # a byte that is no text, a line's end
                raise RequestError("the URL holds what is no plain text", where="HARNESS_DATABASE_URL")
            return Location(None, f"postgresql://{url.removeprefix(prefix)}")
    path = url.removeprefix(_SQLITE)
    if path == url or not path:
        raise RequestError(
            "this database is not supported",
            where=f"HARNESS_DATABASE_URL={url.partition('@')[0] if '@' not in url else url.partition(':')[0] + '://…'}",
            allowed="sqlite:////absolute/path.sqlite3, postgresql://user:password@host/database",
            hint="Unset HARNESS_DATABASE_URL to use the SQLite file in HARNESS_HOME.",
        )
    return Location(Path(path), None)


def unisolated_allowed() -> bool:
    """Whether the store's owner lets evaluations rank that ran without isolation."""
    return os.environ.get("HARNESS_RANK_UNISOLATED") == "1"


_OF_SQLITE = (
    ("readonly", "the store is read-only", "Make the file and its folder writable, or set HARNESS_HOME."),
    ("unable to open", "the store can't be opened", "Check the folder's permissions, or set HARNESS_HOME."),
    ("Permission denied", "the store can't be opened", "Check the folder's permissions, or set HARNESS_HOME."),
    ("File name too long", "the store's path is too long", "Set HARNESS_HOME to a shorter one."),
    ("Too many levels", "links on the way to the store lead in a circle", "Mend them, or set HARNESS_HOME."),
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
_CHECK_URL = "Check HARNESS_DATABASE_URL."
_KEPT = "What was recorded before is kept. Try again when the server is back."
_OF_POSTGRES = (
    ("password", "the server refuses the user or the password", _CHECK_URL),
    ("no pg_hba.conf entry", "the server takes no connection of this user from this machine", _CHECK_URL),
    ("role ", "the server doesn't know this user", _CHECK_URL),
    ("resolve host", "the server's name is not known", _CHECK_URL),
    ("translate host", "the server's name is not known", _CHECK_URL),
    ("does not exist", "there is no such database", "Make it with `createdb NAME`, or check HARNESS_DATABASE_URL."),
    ("onnection refused", "no server answers there", "Start it, or check HARNESS_DATABASE_URL."),
    ("No such file", "no server answers there", "Start it, or check HARNESS_DATABASE_URL."),
    ("timeout expired", "the server does not answer", "Check the network and HARNESS_DATABASE_URL."),
    ("lock timeout", f"another process kept the store locked for {BUSY_TIMEOUT_S:.0f} s", "Try again when it is done."),
    ("permission denied", "this user may not do that in the database", "Ask its owner for the rights."),
    ("read-only", "the database is read-only", "Ask its owner for the rights, or use its primary server."),
    ("terminating connection", "the connection to the server was lost", _KEPT),
    ("server closed the connection", "the connection to the server was lost", _KEPT),
    ("connection is lost", "the connection to the server was lost", _KEPT),
    ("connection is closed", "the connection to the server was lost", _KEPT),
    ("starting up", "the server is just starting", "Try again in a moment."),
    ("shutting down", "the server is just stopping", _KEPT),
    ("too many clients", "the server has no connection left", "Try again in a moment."),
    ("No space left", "no space is left on the server", "Free some space there."),
)


def explain(error: Exception, where: Location | str) -> MachineError:
    """The error that a user sees for a database error of any driver. It names no password."""
    text = str(getattr(error, "orig", None) or error)
    shown = where if isinstance(where, str) else where.shown
    of_postgres = not isinstance(where, str) and where.dsn is not None
    for word, what, hint in _OF_POSTGRES if of_postgres else _OF_SQLITE:
        if word in text:
            return MachineError(what, where=shown, hint=hint)
    return MachineError(f"the store can't be used: {text}", where=shown)

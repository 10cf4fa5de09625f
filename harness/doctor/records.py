"""The harness's own things: the store, the boards, and the public client's configuration. Nothing imports torch."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.boards.find import VARIABLE, board_roots, missing_folders, scan
from harness.doctor.findings import Finding, note, ok, problem, unrecordable
from harness.errors import HarnessError, MachineError
from harness.files import why_not_seen
from harness.store.database import of_sqlite, read_only_sqlite
from harness.store.location import Location, database_url, explain, home
from harness.store.opening import check_version
from harness.store.queries import HAS_TABLES
from harness.wording import counted

_SQLITE = "sqlite:///"
POPCORN_CONFIG = ".popcorn.yaml"
POPCORN_URL_VARIABLE = "POPCORN_API_URL"


def store() -> Iterator[Finding]:
    """Where the store is and whether it opens. It is read, never made, migrated or changed."""
    try:
        url = database_url()
    except HarnessError as error:
        yield unrecordable(f"{error.where}: {error.what}" if error.where else error.what, error.hint)
        return
    path = Path(url.removeprefix(_SQLITE))
    if not url.startswith(_SQLITE):
        yield _on_a_server(url)
        return
    if why := why_not_seen(path):
        advice = "Set HARNESS_HOME to a folder of yours."
        yield unrecordable(f"{path} can't be looked at: {why}", advice, path=str(path))
        return
    if not os.path.exists(path):
        yield from _not_yet(path)
        return
    try:
        count = _count_submissions(path)
    except MachineError as error:
        yield unrecordable(f"{error.what} ({path})", error.hint, path=str(path))
        return
    except (sqlite3.Error, OSError) as error:
        told = explain(error, str(path))
        yield unrecordable(f"{told.what} ({path})", told.hint, path=str(path))
        return
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        which = "is" if not os.access(path, os.W_OK) else "lies in a folder that is"
        advice = "Make file and folder writable, or set HARNESS_HOME to another folder."
        yield unrecordable(f"{path} {which} read-only: results can't be recorded", advice, path=str(path))
    else:
        yield ok("store", f"{path} ({counted(count, 'submission')})", path=str(path), submissions=count)


def _count_submissions(path: Path) -> int:
    """Raises sqlite3.Error, and MachineError for a database that is none of ours, or is of a newer harness."""
    connection = read_only_sqlite(path)
    try:
        db = of_sqlite(connection)
        check_version(db, Location(path, None))
        return int(db.value("SELECT count(*) FROM submissions")) if db.value(HAS_TABLES[False]) else 0
    finally:
        connection.close()


def _on_a_server(url: str) -> Finding:
    """A store that is no file: whether it answers. The URL, which may hold a password, is not shown."""
    from harness.store import open_reader

    try:
        with open_reader() as reader:
            last = reader.last_submission_id()
    except HarnessError as error:
        return unrecordable(f"{error.what} ({error.where})", error.hint)
    return ok("store", f"a {url.partition(':')[0]} database, which answers", last_submission=last)


def _not_yet(path: Path) -> Iterator[Finding]:
    above = next((folder for folder in path.parents if os.path.exists(folder)), path.parents[-1])
    if not os.path.isdir(above) or not os.access(above, os.W_OK | os.X_OK):
        why = "is not writable" if os.path.isdir(above) else "is no folder"
        advice = "Set HARNESS_HOME to a folder that you can write to."
        yield unrecordable(f"{path} can't be made: {above} {why}", advice, path=str(path))
    else:
        yield ok("store", f"{path} (none yet; the first submission makes it)", path=str(path), submissions=0)


def boards() -> Iterator[Finding]:
    """The leaderboards that were found, and the folders that do not load."""
    found = scan()
    names = [board.name for board in found.boards]
    roots = [str(root) for root in board_roots()]
    if names:
        yield ok("boards", f"{len(names)} from {', '.join(roots)}: {', '.join(names)}", boards=names, folders=roots)
    else:
        advice = f"Put problem folders into ./leaderboards, or name theirs in {VARIABLE}."
        yield problem("boards", "there are none", advice, blocks=True, boards=[], folders=roots)
    for entry in found.broken:
        yield problem(f"board {entry.name}", str(entry.error), "Repair it, or take the folder away.")
    for part, trouble in missing_folders().items():
        yield problem("boards", f"{VARIABLE} names {part}, which {trouble}", f"Correct {VARIABLE}.")


def popcorn_client() -> Iterator[Finding]:
    """Whether this user can submit to the hosted service with the public client. What its file says stays unread."""
    url = os.environ.get(POPCORN_URL_VARIABLE, "")
    config = Path(os.path.expanduser("~")) / POPCORN_CONFIG
    why = why_not_seen(config)
    if os.path.isfile(config):
        to = f", server {url}" if url else ""
        yield ok("popcorn client", f"registered ({config}{to})", config=str(config), url=url)
    else:
        advice = "Nothing here needs it. To submit to the hosted service as well: popcorn register github"
        text = f"{config} can't be looked at: {why}" if why else f"not registered (no {config})"
        yield note("popcorn client", text, advice, url=url)


def store_folder() -> Path:
    """Where the store and the logs lie."""
    return home()

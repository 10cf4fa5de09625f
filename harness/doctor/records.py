"""The harness's own things: the store, the boards, and the public client's configuration. Nothing imports torch."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.boards.find import VARIABLE, board_roots, scan
from harness.doctor.findings import Finding, note, ok, problem, unrecordable
from harness.errors import HarnessError
from harness.store.database import read_only_sqlite
from harness.store.location import database_url, explain, home

_SQLITE = "sqlite:///"
POPCORN_CONFIG = ".popcorn.yaml"
POPCORN_URL_VARIABLE = "POPCORN_API_URL"


def store() -> Iterator[Finding]:
    """Where the store is and whether it opens. It is read, never made, migrated or changed."""
    url = database_url()
    path = Path(url.removeprefix(_SQLITE))
    if not url.startswith(_SQLITE):
        yield _on_a_server(url)
        return
    if not path.exists():
        yield from _not_yet(path)
        return
    try:
        connection = read_only_sqlite(path)
        try:
            (count,) = connection.execute("SELECT count(*) FROM submissions").fetchone()
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        told = explain(error, str(path))
        yield unrecordable(f"{told.what} ({path})", told.hint, path=str(path))
        return
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        which = "is" if not os.access(path, os.W_OK) else "lies in a folder that is"
        advice = "Make file and folder writable, or set HARNESS_HOME to another folder."
        yield unrecordable(f"{path} {which} read-only: results can't be recorded", advice, path=str(path))
    else:
        counted = "1 submission" if count == 1 else f"{count} submissions"
        yield ok("store", f"{path} ({counted})", path=str(path), submissions=count)


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
    above = next(folder for folder in path.parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        why = "is not writable" if above.is_dir() else "is no folder"
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
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if not Path(part).expanduser().is_dir():
            yield problem("boards", f"{VARIABLE} names {part}, which is no folder", f"Correct {VARIABLE}.")


def popcorn_client() -> Iterator[Finding]:
    """Whether this user can submit to the hosted service with the public client. What its file says stays unread."""
    config = Path.home() / POPCORN_CONFIG
    url = os.environ.get(POPCORN_URL_VARIABLE, "")
    if config.is_file():
        to = f", server {url}" if url else ""
        yield ok("popcorn client", f"registered ({config}{to})", config=str(config), url=url)
    else:
        advice = "Nothing here needs it. To submit to the hosted service as well: popcorn register github"
        yield note("popcorn client", f"not registered (no {config})", advice, url=url)


def store_folder() -> Path:
    """Where the store and the logs lie."""
    return home()

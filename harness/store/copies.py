"""Submissions that come once more by another name: published rows have origins of their own, made of the numbers in
their file, so that what was exported as such rows is told from its text, not from its origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.store.database import Database

if TYPE_CHECKING:
    from harness.store.bulk import NewSubmission

_SAME = "leaderboard, user_name, created_at, source_sha256"
"""What two records of one submission agree in: nobody submits one text twice within a microsecond."""
_THERE = f"SELECT id, {_SAME} FROM submissions WHERE published IS {{}} ORDER BY id DESC"


class Copies:
    """What the store held of either kind, published rows and others, when the first of the other kind came: about a
    hundred bytes for each."""

    def __init__(self) -> None:
        self._ids: dict[bool, dict[int, int]] = {}  # by kind: id by the hash of what is the same

    def find(
        self, db: Database, batch: Sequence[NewSubmission], shas: Sequence[str], new: Mapping[str, int]
    ) -> dict[str, int]:
        """The ids of those of a batch that are there as the other kind, by origin. `new` are the indices of those whose
        origin the store does not know; to be asked within a transaction."""
        wanted: dict[str, tuple[int, tuple[str, ...]]] = {}
        for published in {each.published is not None for each in batch}:
            ids = self._of_kind(db, published=not published)
            for origin, index in new.items() if ids else ():
                each = batch[index]
                same = (each.leaderboard, each.user, each.created_at, shas[index])
                if (each.published is not None) is published and (id := ids.get(hash(same))) is not None:
                    wanted[origin] = id, same
        found = db.look_up("submissions", "id", {id for id, _ in wanted.values()}, f"id, {_SAME}")
        there = {row[0]: row[1:] for row in found}
        return {origin: id for origin, (id, same) in wanted.items() if there.get(id) == same}

    def _of_kind(self, db: Database, *, published: bool) -> dict[int, int]:
        if published not in self._ids:
            rows = db.stream(_THERE.format("NOT NULL" if published else "NULL"))
            self._ids[published] = {hash(tuple(same)): id for id, *same in rows}
        return self._ids[published]


def runs_of(db: Database, submission_ids: Iterable[int]) -> set[tuple[int, str, str]]:
    """The runs that these have: the submission, its mode and the device, by which a published row names one."""
    rows = db.look_up("evaluations", "submission_id", submission_ids, "submission_id, mode, device_name")
    return {(id, mode, device) for id, mode, device in rows}

"""Compilations that the store keeps beside a submission's source. No torch, and no SQLAlchemy but to write."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.compiling.comparison import CompilationChange, compare_compilations
from harness.compiling.jsonable import RecordError, compilation_from_dict, to_dict
from harness.compiling.record import Compilation
from harness.store import Reader, SubmissionRow, open_reader

if TYPE_CHECKING:
    from collections.abc import Sequence


def keep(compilations: Sequence[Compilation]) -> bool:
    """Record compilations of all of a board's cases beside the source, where the store has it; whether it has."""
    plain = [replace(each, cached=False) for each in compilations]
    with open_reader() as reader:
        recorded = all(reader.has_source(each.source_sha256) for each in plain)
        fresh = [each for each in plain if each not in _read(reader, each.source_sha256, each.leaderboard)]
    if recorded and fresh:
        from harness.store import Store

        with Store.open() as store:
            for each in fresh:
                report = json.dumps(to_dict(each))
                store.keep_compilation(each.source_sha256, each.leaderboard or "", each.architecture, report)
    return recorded


def kept_compilations(reader: Reader, submission: SubmissionRow) -> tuple[Compilation, ...]:
    """What compile mode said of a submission's source on its board, by architecture."""
    return _read(reader, submission.sha256, submission.leaderboard)


def changes_of(reader: Reader, old: SubmissionRow, new: SubmissionRow) -> tuple[CompilationChange, ...]:
    """What changed for every architecture that both were compiled for."""
    before = {each.architecture: each for each in kept_compilations(reader, old)}
    after = kept_compilations(reader, new)
    return tuple(compare_compilations(before[each.architecture], each) for each in after if each.architecture in before)


def _read(reader: Reader, sha256: str, leaderboard: str | None) -> tuple[Compilation, ...]:
    found = []
    for text in reader.compilations(sha256, leaderboard or ""):
        try:
            found.append(compilation_from_dict(json.loads(text)))
        except (ValueError, RecordError):
            continue  # kept by another version of harness: compiling again replaces it
    return tuple(found)

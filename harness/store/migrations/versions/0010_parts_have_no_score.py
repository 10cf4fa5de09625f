"""Runs of some of a grid's cases that an earlier harness gave a score: they have none, and say why.

Which runs these are is seen from the numbers of their benchmarks, where the first or one in between is missing, and
from the ranked runs of their board and grid, where those have the same benchmarks and more, and one of them was begun
before the run in question had ended. A larger one that came later tells nothing: the board may have grown since, and
the run was of all that it had. Such a run keeps its score.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_SUSPECT = """
SELECT e.id, s.leaderboard, e.grid, e.mode, e.benchmarks, coalesce(e.finished_at, e.started_at)
FROM evaluations e JOIN submissions s ON s.id = e.submission_id
WHERE e.score_ns IS NOT NULL AND e.id > :after
  AND (e.mode = 'benchmark' AND e.rank_reason_code IS NULL OR e.rank_reason_code = 'unsealed_protocol')
ORDER BY e.id LIMIT :limit
"""
_WHOLE = """
SELECT e.benchmarks, min(e.id), min(e.started_at)
FROM evaluations e JOIN submissions s ON s.id = e.submission_id
WHERE s.leaderboard = :leaderboard AND e.grid = :grid AND e.mode = 'leaderboard' AND e.protocol = 'sealed-1'
  AND e.score_ns IS NOT NULL GROUP BY e.benchmarks
"""
_CASES = """
SELECT idx, spec FROM case_results WHERE evaluation_id = :id AND kind = 'benchmark' ORDER BY idx
"""
_MARK = """
UPDATE evaluations SET rank_reason_code = 'cases_left_out', rank_reason_message = :message,
       score_ns = NULL, score_low_ns = NULL, score_high_ns = NULL, rank_then = NULL
WHERE id = :id
"""
Cases = dict[int, str]
"""Benchmarks by number, as text without their seeds."""


class Whole(NamedTuple):
    """The benchmarks of a board at some time, and when the first ranked run of them began."""

    cases: Cases
    began: str


def upgrade() -> None:
    connection = op.get_bind()
    known: dict[tuple[str, str], dict[str, Whole]] = {}
    after, derived_changed = 0, False
    while rows := connection.execute(sa.text(_SUSPECT), {"after": after, "limit": _AT_ONCE}).all():
        for id, leaderboard, grid, mode, benchmarks, ended in rows:
            if (leaderboard, grid) not in known:
                known[leaderboard, grid] = _whole_runs(leaderboard, grid)
            message = _what_is_missing(_cases(id), benchmarks, ended, known[leaderboard, grid])
            if message:
                connection.execute(sa.text(_MARK), {"id": id, "message": message})
                derived_changed |= mode == "leaderboard"
        after = rows[-1][0]
    if derived_changed:  # the tables of rankings are made anew when the store is opened next
        connection.execute(sa.text("DELETE FROM store_info WHERE key = 'standings'"))


def _whole_runs(leaderboard: str, grid: str) -> dict[str, Whole]:
    """The benchmarks of ranked runs, which are of whole grids, by their digest: several where the board was edited."""
    found = op.get_bind().execute(sa.text(_WHOLE), {"leaderboard": leaderboard, "grid": grid}).all()
    return {digest: Whole(_cases(id), began) for digest, id, began in found}


def _cases(id: int) -> Cases:
    rows: Sequence[Any] = op.get_bind().execute(sa.text(_CASES), {"id": id}).all()
    specs = ((number, json.loads(spec)) for number, spec in rows)
    return {
        number: json.dumps({name: value for name, value in spec.items() if name != "seed"}, sort_keys=True)
        for number, spec in specs
    }


def _what_is_missing(cases: Cases, digest: str, ended: str, whole: dict[str, Whole]) -> str:
    """What `harness.evaluation.left_out` says of such a run; nothing for one that is whole for all that is known."""
    if digest in whole or not cases:
        return ""
    before = [each.cases for each in whole.values() if each.began < ended]
    larger = [len(each) for each in before if len(each) > len(cases) and cases.items() <= each.items()]
    if larger:
        return f"only {len(cases)} of {min(larger)} benchmark cases {'was' if len(cases) == 1 else 'were'} run"
    return "only some of the benchmark cases were run" if set(cases) != set(range(len(cases))) else ""

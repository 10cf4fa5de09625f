"""Which benchmarks a score is of: scores over others, of a board that was edited, are ranked apart."""

from __future__ import annotations

import hashlib
import json
from itertools import groupby

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_EVALUATIONS_AT_ONCE = 1000
_KEY = ("leaderboard", "grid", "device_kind", "device_name", "protocol", "isolation", "benchmarks", "unranked")


def upgrade() -> None:
    op.add_column("evaluations", sa.Column("benchmarks", sa.Text(), nullable=True))
    _name_benchmarks()
    # Derived, and made anew from the evaluations when the store is opened next.
    op.drop_table("rank_classes")
    op.create_table(
        "rank_classes",
        sa.Column("id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _KEY),
        sa.Column("last_evaluation_id", sa.Integer(), nullable=False),
        sa.Column("stale", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rank_classes")),
        sa.UniqueConstraint(*_KEY, name=op.f("uq_rank_classes")),
    )


def _name_benchmarks() -> None:
    """Give every evaluation that has a score what harness.measure.scoring.benchmarks_digest says of its cases."""
    connection = op.get_bind()
    page = sa.text("SELECT id FROM evaluations WHERE score_ns IS NOT NULL AND id > :after ORDER BY id LIMIT :limit")
    specs = sa.text(
        "SELECT evaluation_id, spec FROM case_results"
        " WHERE kind = 'benchmark' AND evaluation_id BETWEEN :first AND :last ORDER BY evaluation_id, idx"
    )
    write = sa.text("UPDATE evaluations SET benchmarks = :digest WHERE id = :id")
    after = 0
    while ids := list(connection.execute(page, {"after": after, "limit": _EVALUATIONS_AT_ONCE}).scalars()):
        rows = connection.execute(specs, {"first": ids[0], "last": ids[-1]}).all()
        cases = {id: [json.loads(spec) for _, spec in group] for id, group in groupby(rows, key=lambda row: row[0])}
        connection.execute(write, [{"id": id, "digest": _digest(cases.get(id, []))} for id in ids])
        after = ids[-1]


def _digest(specs: list[dict[str, object]]) -> str:
    if not specs:
        return ""
    told = [{name: value for name, value in spec.items() if name != "seed"} for spec in specs]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

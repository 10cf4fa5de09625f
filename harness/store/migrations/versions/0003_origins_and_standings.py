"""Where imported rows come from; the rank that a score held; the tables that rankings are read from.

Those are filled by `harness.store.standings.rebuild` as soon as the store is opened.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "store_info",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_store_info")),
    )
    for table in ("submissions", "evaluations"):
        op.add_column(table, sa.Column("origin", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("published", sa.Text(), nullable=True))
        op.create_index(op.f(f"ix_{table}_origin"), table, ["origin"], unique=True)
    op.add_column("evaluations", sa.Column("rank_then", sa.Integer(), nullable=True))
    # Imported submissions are older than their ids: what comes before what is a matter of time.
    op.drop_index(op.f("ix_submissions_leaderboard_user_name_id"), "submissions")
    op.drop_index(op.f("ix_submissions_user_name_id"), "submissions")
    op.create_index(
        op.f("ix_submissions_leaderboard_user_name_created_at_id"),
        "submissions",
        ["leaderboard", "user_name", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_submissions_user_name_created_at_id"), "submissions", ["user_name", "created_at", "id"], unique=False
    )
    op.create_table(
        "rank_classes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard", sa.Text(), nullable=False),
        sa.Column("grid", sa.Text(), nullable=False),
        sa.Column("device_kind", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("isolation", sa.Text(), nullable=False),
        sa.Column("unranked", sa.Text(), nullable=False),
        sa.Column("last_evaluation_id", sa.Integer(), nullable=False),
        sa.Column("stale", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rank_classes")),
        sa.UniqueConstraint(
            "leaderboard",
            "grid",
            "device_kind",
            "device_name",
            "protocol",
            "isolation",
            "unranked",
            name=op.f("uq_rank_classes"),
        ),
    )
    op.create_table(
        "scored_runs",
        sa.Column("class_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("source_sha256", sa.String(length=64), nullable=False),
        sa.Column("evaluation_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("finished_at", sa.String(length=27), nullable=False),
        sa.Column("score_ns", sa.Double(), nullable=False),
        sa.Column("score_low_ns", sa.Double(), nullable=True),
        sa.Column("score_high_ns", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("class_id", "user_name", "source_sha256", "evaluation_id", name=op.f("pk_scored_runs")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "user_standings",
        sa.Column("class_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("score_ns", sa.Double(), nullable=False),
        sa.Column("score_low_ns", sa.Double(), nullable=True),
        sa.Column("score_high_ns", sa.Double(), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("all_runs", sa.Integer(), nullable=False),
        sa.Column("last_evaluation_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("class_id", "user_name", name=op.f("pk_user_standings")),
    )
    op.create_index(
        op.f("ix_user_standings_class_id_score_ns"), "user_standings", ["class_id", "score_ns"], unique=False
    )

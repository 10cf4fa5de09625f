"""The first schema: sources, submissions, evaluations, case results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sources",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_sources")),
    )
    op.create_table(
        "submissions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("source_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("gpus", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_sha256"], ["sources.sha256"], name=op.f("fk_submissions_source_sha256_sources")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submissions")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_submissions_leaderboard_user_name_id"), "submissions", ["leaderboard", "user_name", "id"], unique=False
    )
    op.create_index(op.f("ix_submissions_user_name_id"), "submissions", ["user_name", "id"], unique=False)
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("grid", sa.Text(), nullable=False),
        sa.Column("ranking_by", sa.Text(), nullable=False),
        sa.Column("device_kind", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("device_details", sa.Text(), nullable=False),
        sa.Column("isolation", sa.Text(), nullable=False),
        sa.Column("interpreted", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("versions", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("cases_planned", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason_code", sa.Text(), nullable=True),
        sa.Column("reason_message", sa.Text(), nullable=True),
        sa.Column("rank_reason_code", sa.Text(), nullable=True),
        sa.Column("rank_reason_message", sa.Text(), nullable=True),
        sa.Column("phases_s", sa.Text(), nullable=False),
        sa.Column("started_at", sa.String(length=27), nullable=False),
        sa.Column("finished_at", sa.String(length=27), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_start", sa.Text(), nullable=False),
        sa.Column("score_ns", sa.Double(), nullable=True),
        sa.Column("score_low_ns", sa.Double(), nullable=True),
        sa.Column("score_high_ns", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name=op.f("fk_evaluations_submission_id_submissions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluations")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_evaluations_status"), "evaluations", ["status"], unique=False)
    op.create_index(op.f("ix_evaluations_submission_id"), "evaluations", ["submission_id"], unique=False)
    op.create_table(
        "case_results",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason_code", sa.Text(), nullable=True),
        sa.Column("reason_message", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=False),
        sa.Column("wall_ns", sa.Text(), nullable=True),
        sa.Column("overhead_ns", sa.Text(), nullable=True),
        sa.Column("events_ns", sa.Text(), nullable=True),
        sa.Column("stop_rule", sa.Text(), nullable=True),
        sa.Column("flops", sa.Double(), nullable=True),
        sa.Column("bytes_moved", sa.Double(), nullable=True),
        sa.Column("speed_of_light_ns", sa.Double(), nullable=True),
        sa.Column("floor_ns", sa.Double(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.id"], name=op.f("fk_case_results_evaluation_id_evaluations")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_case_results")),
        sa.UniqueConstraint("evaluation_id", "kind", "idx", name=op.f("uq_case_results_evaluation_id_kind_idx")),
    )

"""Indexes that cost an import much and gave little: an evaluation is found by its submission, one that runs by that."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index(op.f("ix_evaluations_origin"), "evaluations")
    op.drop_index(op.f("ix_evaluations_status"), "evaluations")
    op.create_index(
        "ix_evaluations_running",
        "evaluations",
        ["status"],
        unique=False,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )

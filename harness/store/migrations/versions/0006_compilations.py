"""What compile mode said of a source, for each architecture."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "compilations",
        sa.Column("source_sha256", sa.String(length=64), nullable=False),
        sa.Column("leaderboard", sa.Text(), nullable=False),
        sa.Column("architecture", sa.Text(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_sha256"], ["sources.sha256"], name=op.f("fk_compilations_source_sha256_sources")
        ),
        sa.PrimaryKeyConstraint("source_sha256", "leaderboard", "architecture", name=op.f("pk_compilations")),
    )

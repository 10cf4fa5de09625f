"""Notes and tags of submissions; what was read from a source's syntax tree, by extractor version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["submission_id"], ["submissions.id"], name=op.f("fk_notes_submission_id_submissions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_notes_submission_id"), "notes", ["submission_id"], unique=False)
    op.create_table(
        "tags",
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["submission_id"], ["submissions.id"], name=op.f("fk_tags_submission_id_submissions")),
        sa.PrimaryKeyConstraint("submission_id", "tag", name=op.f("pk_tags")),
    )
    op.create_table(
        "techniques",
        sa.Column("source_sha256", sa.String(length=64), nullable=False),
        sa.Column("extractor_version", sa.Integer(), nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_sha256"], ["sources.sha256"], name=op.f("fk_techniques_source_sha256_sources")
        ),
        sa.PrimaryKeyConstraint("source_sha256", "extractor_version", name=op.f("pk_techniques")),
    )

"""An index whose every page an import changed again and again: a user's submissions are found board by board."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index(op.f("ix_submissions_user_name_created_at_id"), "submissions")

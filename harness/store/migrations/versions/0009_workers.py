"""How many worker processes took the timed calls of a case by turns; none said is one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("case_results", sa.Column("workers", sa.Integer(), nullable=True))

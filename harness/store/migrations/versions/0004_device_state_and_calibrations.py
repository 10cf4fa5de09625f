"""The device's state around an evaluation; calibrations of devices and of the noise between runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluations", sa.Column("state", sa.Text(), nullable=True))
    op.create_table(
        "device_calibrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_kind", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("device_details", sa.Text(), nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.Column("versions", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_calibrations")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "noise_calibrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_kind", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("leaderboard", sa.Text(), nullable=False),
        sa.Column("grid", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("scores_ns", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_noise_calibrations")),
        sqlite_autoincrement=True,
    )

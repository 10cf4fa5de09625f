"""Bring a store's schema up to date. Importing this imports SQLAlchemy and Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection

MIGRATIONS = Path(__file__).parent / "migrations"


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def upgrade(connection: Connection) -> None:
    """Run every missing step, inside the caller's transaction; nothing when there is none."""
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")

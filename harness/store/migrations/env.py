"""Run by Alembic. The caller hands over its open connection, so that all steps share one transaction."""

from __future__ import annotations

from alembic import context

from harness.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()

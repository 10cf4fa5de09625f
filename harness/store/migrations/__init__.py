"""Alembic's environment and the steps from each schema version to the next. `harness.store.migrate` runs them."""

"""Alembic's environment; `db.migrate` hands it a connection."""

from alembic import context

from rubricworks.platform_api.db.tables import Table

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Table.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()

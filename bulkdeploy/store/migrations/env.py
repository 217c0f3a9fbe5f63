"""Alembic's entry: runs migrations on the connection that ``upgrade`` hands over."""

from alembic import context

from bulkdeploy.store.tables.catalog import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()

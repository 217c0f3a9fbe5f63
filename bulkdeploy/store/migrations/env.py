"""Alembic's entry point, which runs migrations on the connection of ``upgrade`` and records each of them."""

from alembic import context
from alembic.runtime.migration import MigrationInfo
from sqlalchemy import insert

from bulkdeploy.store.tables.catalog import metadata
from bulkdeploy.store.tables.revisions import schema_revisions

connection = context.config.attributes["connection"]


def record_revision(ctx: object, step: MigrationInfo, heads: object, run_args: object) -> None:
    """Record that a migration was applied."""
    del ctx, heads, run_args
    connection.execute(insert(schema_revisions), [{"revision": name} for name in step.up_revision_ids])


context.configure(connection=connection, target_metadata=metadata, on_version_apply=record_revision)
context.run_migrations()

"""The changes of the schema. ``store.migrations.upgrade`` creates these tables before any migration runs."""

from sqlalchemy import Column, DateTime, Table, Text, text

from bulkdeploy.store.tables.schema import metadata

schema_revisions = Table(
    "schema_revisions",
    metadata,
    Column("revision", Text, primary_key=True),
    Column("applied", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    comment="every migration that was applied; programs refuse a database with a post one that they do not know",
)

"""Custom actions of extensions."""

from sqlalchemy import ARRAY, Boolean, Column, Index, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import created, identity, metadata, name_column, public_uuid, removed

custom_actions = Table(
    "custom_actions",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("description", Text),
    Column("resource_type", Text, nullable=False),
    Column("role_types", ARRAY(Text), nullable=False, comment="of callers that may run it"),
    Column(
        "parameters", JSONB, nullable=False, server_default=text("'[]'"), comment="as listCustomActions shows them"
    ),
    Column("details", JSONB, nullable=False, server_default=text("'{}'"), comment="sent to the extension"),
    Column("success_message", Text),
    Column("error_message", Text),
    Column("timeout_seconds", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=text("false")),
    created(),
    removed(),
    Index("uq_custom_actions_live_name", "name", unique=True, postgresql_where=text("removed IS NULL")),
)

"""Image stores: secondary storage that operators' tools configure. The service stores nothing there."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text, text

from bulkdeploy.store.tables.schema import created, identity, metadata, name_column, public_uuid, reference, removed

image_stores = Table(
    "image_stores",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("zone_id", "zones.id", index=True),
    Column("provider", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("read_only", Boolean, nullable=False, server_default=text("false")),
    Column("capacity_bytes", BigInteger, comment="NULL: unknown"),
    created(),
    removed(),
    Index("uq_image_stores_live_name", "name", unique=True, postgresql_where=text("removed IS NULL")),
)

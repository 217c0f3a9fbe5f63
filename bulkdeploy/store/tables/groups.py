"""Security groups, affinity groups, SSH key pairs, instance groups, user data, tags and annotations."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text, Uuid, text

from bulkdeploy.store.tables.schema import (
    created,
    identity,
    metadata,
    name_column,
    public_uuid,
    reference,
    removed,
)

security_groups = Table(
    "security_groups",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("description", Text, nullable=False, server_default=""),
    reference("account_id", "accounts.id"),
    created(),
    removed(),
    Index(
        "uq_security_groups_live_name",
        "account_id",
        "name",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

security_group_rules = Table(
    "security_group_rules",
    metadata,
    identity(),
    public_uuid(),
    reference("security_group_id", "security_groups.id", index=True),
    Column("direction", Text, nullable=False, comment="ingress or egress"),
    Column("protocol", Text, nullable=False),
    Column("start_port", Integer),
    Column("end_port", Integer),
    Column("icmp_type", Integer),
    Column("icmp_code", Integer),
    Column("cidr", Text),
    reference("peer_group_id", "security_groups.id", nullable=True),
)

vm_security_groups = Table(
    "vm_security_groups",
    metadata,
    Column("vm_id", BigInteger, primary_key=True),
    Column("security_group_id", BigInteger, primary_key=True),
    Index("ix_vm_security_groups_security_group_id", "security_group_id"),
)

affinity_groups = Table(
    "affinity_groups",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("affinity_type", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=""),
    reference("account_id", "accounts.id", nullable=True),
    reference("domain_id", "domains.id"),
    created(),
    removed(),
    Index(
        "uq_affinity_groups_live_name",
        "account_id",
        "name",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

vm_affinity_groups = Table(
    "vm_affinity_groups",
    metadata,
    Column("vm_id", BigInteger, primary_key=True),
    Column("affinity_group_id", BigInteger, primary_key=True),
    Index("ix_vm_affinity_groups_affinity_group_id", "affinity_group_id"),
)

ssh_key_pairs = Table(
    "ssh_key_pairs",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("account_id", "accounts.id"),
    Column("fingerprint", Text, nullable=False),
    Column("public_key", Text, nullable=False),
    created(),
    removed(),
    Index(
        "uq_ssh_key_pairs_live_name",
        "account_id",
        "name",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

instance_groups = Table(
    "instance_groups",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("account_id", "accounts.id"),
    created(),
    removed(),
    Index(
        "uq_instance_groups_live_name",
        "account_id",
        "name",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

user_data = Table(
    "user_data",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("account_id", "accounts.id"),
    Column("content", Text, nullable=False, comment="base64"),
    Column("params", Text),
    created(),
    removed(),
    Index(
        "uq_user_data_live_name",
        "account_id",
        "name",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

resource_tags = Table(
    "resource_tags",
    metadata,
    identity(),
    public_uuid(),
    Column("resource_type", Text, nullable=False),
    Column("resource_id", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("customer", Text),
    reference("account_id", "accounts.id", index=True),
    Index("uq_resource_tags_key", "resource_type", "resource_id", "key", unique=True),
)

resource_details = Table(
    "resource_details",
    metadata,
    identity(),
    Column("resource_type", Text, nullable=False),
    Column("resource_id", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column(
        "display", Boolean, nullable=False, server_default=text("true"), comment="false: only root admins see it"
    ),
    reference("account_id", "accounts.id", index=True),
    Index("uq_resource_details_key", "resource_type", "resource_id", "key", unique=True),
)

annotations = Table(
    "annotations",
    metadata,
    identity(),
    public_uuid(),
    Column("annotation", Text, nullable=False),
    Column("entity_type", Text, nullable=False),
    Column("entity_uuid", Uuid, nullable=False),
    reference("account_id", "accounts.id", nullable=True, index=True),
    reference("user_id", "users.id"),
    Column("admins_only", Boolean, nullable=False, server_default=text("false")),
    created(),
    removed(),
    Index("ix_annotations_entity", "entity_type", "entity_uuid"),
)

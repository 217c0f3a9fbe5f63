"""Deployments (one row per deploy call, single or bulk), virtual machines and their volumes.

What all VMs of a call share (user data, key pairs, groups, pins, planner) stands once, in the
deployment; a VM row holds what differs, so that a batch of 50,000 stays small.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import (
    created,
    identity,
    metadata,
    public_uuid,
    reference,
    removed,
)

deployments = Table(
    "deployments",
    metadata,
    identity(),
    public_uuid(),
    Column("bulk", Boolean, nullable=False),
    reference("account_id", "accounts.id", index=True),
    Column("user_id", BigInteger, nullable=False),
    reference("zone_id", "zones.id"),
    Column("vm_count", Integer, nullable=False, comment="VMs made"),
    Column("asked_count", Integer, nullable=False, comment="virtualmachinecount as asked"),
    Column("config", JSONB, nullable=False, comment="what all VMs of the call share"),
    Column("pinned", Boolean, nullable=False, comment="pod, cluster or host given: no retry elsewhere"),
    Column("plan", JSONB, nullable=False, comment="seed, exclusions, VMs per cluster before and added"),
    Column("request_token", Text),
    Column("request_fingerprint", LargeBinary),
    Column("cancel_requested", DateTime(timezone=True)),
    created(),
    Index(
        "uq_deployments_request_token",
        "user_id",
        "request_token",
        unique=True,
        postgresql_where=text("request_token IS NOT NULL"),
    ),
)

virtual_machines = Table(
    "virtual_machines",
    metadata,
    identity(),
    public_uuid(),
    Column("name", Text, nullable=False),
    Column("display_name", Text, nullable=False),
    Column("instance_name", Text, nullable=False),
    reference("account_id", "accounts.id"),
    Column("user_id", BigInteger, nullable=False),
    reference("zone_id", "zones.id"),
    Column("pod_id", BigInteger),
    Column("cluster_id", BigInteger),
    Column("host_id", BigInteger, comment="where it runs or is claimed to run; NULL when it holds no host"),
    Column("last_host_id", BigInteger),
    Column("hypervisor", Text, nullable=False),
    reference("service_offering_id", "service_offerings.id"),
    reference("template_id", "templates.id"),
    Column("disk_offering_id", BigInteger),
    Column("cpu_number", Integer, nullable=False),
    Column("cpu_mhz", Integer, nullable=False, comment="speed of one core"),
    Column("memory_mib", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("group_id", BigInteger, comment="instance group"),
    reference("deployment_id", "deployments.id", index=True),
    Column("user_data", Text, comment="base64; NULL: the deployment's"),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("display_vm", Boolean, nullable=False, server_default=text("true")),
    Column("delete_protection", Boolean, nullable=False, server_default=text("false")),
    created(),
    Column("updated", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    removed(),
    Index("ix_virtual_machines_account", "account_id", "cluster_id"),
    Index("ix_virtual_machines_host", "host_id", postgresql_where=text("host_id IS NOT NULL")),
    Index("ix_virtual_machines_cluster", "cluster_id", postgresql_where=text("host_id IS NOT NULL")),
)

volumes = Table(
    "volumes",
    metadata,
    identity(),
    public_uuid(),
    Column("name", Text, nullable=False),
    reference("account_id", "accounts.id", index=True),
    reference("zone_id", "zones.id"),
    Column("vm_id", BigInteger, index=True),
    Column("pool_id", BigInteger, comment="NULL until it has a place"),
    Column("volume_type", Text, nullable=False),
    Column("device_id", Integer),
    Column("size_bytes", BigInteger, nullable=False),
    Column("template_id", BigInteger),
    Column("disk_offering_id", BigInteger),
    Column("service_offering_id", BigInteger),
    Column("state", Text, nullable=False, comment="Allocated, Ready, Destroy, Expunged"),
    created(),
    Column("attached", DateTime(timezone=True)),
    removed(),
)

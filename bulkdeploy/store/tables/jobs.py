"""Jobs with their leases, the outbox, events, alerts and global configuration."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import created, identity, metadata, parent_id, public_uuid, reference

async_jobs = Table(
    "async_jobs",
    metadata,
    identity(),
    public_uuid(),
    Column("kind", Text, nullable=False, comment="JobKind; the cmd of a job that was done with its call"),
    Column("cmd", Text, nullable=False),
    Column("account_id", BigInteger, nullable=False, comment="the submitter's account"),
    Column("user_id", BigInteger, nullable=False),
    Column("instance_type", Text),
    Column("instance_id", BigInteger),
    Column("instance_uuid", Uuid),
    Column("deployment_id", BigInteger),
    Column("operation_id", BigInteger),
    Column("parent_id", BigInteger, comment="the job that made this one, and is woken when it ends"),
    Column("params", JSONB, nullable=False, server_default=text("'{}'"), comment="small; kind-specific"),
    Column("status", SmallInteger, nullable=False, server_default=text("0")),
    Column("phase", Text, nullable=False, server_default="queued"),
    Column("result", Text, comment="JSON object, written once"),
    Column("result_code", Integer, nullable=False, server_default=text("0")),
    Column("lease_owner", Text),
    Column("lease_fence", BigInteger, nullable=False, server_default=text("0"), comment="grows with each lease"),
    Column("lease_until", DateTime(timezone=True)),
    Column("attempts", Integer, nullable=False, server_default=text("0"), comment="leases taken and used"),
    Column(
        "lost_leases", Integer, nullable=False, server_default=text("0"), comment="leases that ran out unattended"
    ),
    Column("host_id", BigInteger, comment="running: the host whose driver works on it; waiting: for a place there"),
    Column("retry_at", DateTime(timezone=True), comment="when a waiting job is due"),
    Column("progress", JSONB, comment="avoid set and step, kept across attempts"),
    Column("request_id", Text, comment="of the call that made it; NULL: no call did"),
    Column("traceparent", Text, comment="the span that made it, where there are traces"),
    created(),
    Column("started", DateTime(timezone=True)),
    Column("completed", DateTime(timezone=True)),
    Index("ix_async_jobs_deployment", "deployment_id", "id"),
    Index(
        "ix_async_jobs_operation",
        "operation_id",
        "id",
        postgresql_where=text("operation_id IS NOT NULL"),
    ),
    Index(
        "ix_async_jobs_held",
        "operation_id",
        "id",
        postgresql_where=text("status = 0 AND phase = 'held'"),
    ),
    Index("ix_async_jobs_unfinished", "phase", "lease_until", postgresql_where=text("status = 0")),
    Index(
        "ix_async_jobs_host",
        "phase",
        "host_id",
        postgresql_where=text("status = 0 AND host_id IS NOT NULL"),
    ),
    Index("ix_async_jobs_instance", "instance_id", "id"),
    Index("ix_async_jobs_account", "account_id", "id"),
    Index("ix_async_jobs_parent", "parent_id", "instance_id", postgresql_where=text("parent_id IS NOT NULL")),
    Index("ix_async_jobs_completed", "completed", postgresql_where=text("status <> 0")),
    postgresql_with={"fillfactor": "70"},
)

bulk_operations = Table(
    "bulk_operations",
    metadata,
    identity(),
    public_uuid(),
    Column("command", Text, nullable=False),
    reference("account_id", "accounts.id", index=True),
    Column("user_id", BigInteger, nullable=False),
    Column("vm_count", Integer, nullable=False, comment="jobs made"),
    Column("max_parallel", Integer, comment="jobs under way at once; the others are held; NULL: all of them"),
    Column(
        "max_failures",
        Integer,
        comment="if more jobs fail, those that have not begun are cancelled; NULL: never",
    ),
    Column(
        "failed",
        JSONB,
        nullable=False,
        server_default=text("'[]'"),
        comment="virtual machines that a partial operation left out, as the call answered them",
    ),
    Column("request_token", Text),
    Column("request_fingerprint", LargeBinary),
    Column("cancel_requested", DateTime(timezone=True)),
    created(),
    Index(
        "uq_bulk_operations_request_token",
        "user_id",
        "request_token",
        unique=True,
        postgresql_where=text("request_token IS NOT NULL"),
    ),
)

outbox = Table(
    "outbox",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("queue", Text, nullable=False),
    Column("kind", Text, nullable=False),
    created(),
)

events = Table(
    "events",
    metadata,
    identity(),
    public_uuid(),
    Column("event_type", Text, nullable=False, comment="VM.CREATE, ..."),
    Column("level", Text, nullable=False, server_default="INFO"),
    Column("state", Text, nullable=False, server_default="Completed"),
    Column("description", Text, nullable=False),
    parent_id("account_id"),
    Column("user_id", BigInteger),
    Column("resource_type", Text),
    Column("resource_id", BigInteger),
    Column("resource_uuid", Uuid),
    Column("parent_uuid", Uuid, comment="the Scheduled event of the same action"),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    created(),
    Index("ix_events_account", "account_id", "id"),
)

alerts = Table(
    "alerts",
    metadata,
    identity(),
    public_uuid(),
    Column("alert_type", SmallInteger, nullable=False, comment="number of the type"),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    created(),
)

configuration_values = Table(
    "configuration_values",
    metadata,
    Column("scope", Text, primary_key=True, comment="global, zone, cluster, storage, account or domain"),
    Column("scope_id", BigInteger, primary_key=True, comment="0 for global"),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("updated", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)

"""The capacity ledger: the limit of each host and pool, the claims, and their consumers.

There is one row per claim: the consumer's uuid, the host (or pool) and an amount per resource. A host's ``*_used``
columns are the sums of its claims, and ``account_clusters`` counts each account's claims per cluster. Both are
updated in the transaction of the claim, and ``bulkdeploy audit`` checks them. docs/adr/0004-ledger-rows.md explains
why resources are columns, not rows.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from bulkdeploy.store.tables.schema import created, metadata, parent_id

host_capacity = Table(
    "host_capacity",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("cpu_mhz_limit", BigInteger, nullable=False, comment="cores x MHz x over-commit"),
    Column("cpu_mhz_used", BigInteger, nullable=False, server_default=text("0")),
    Column("memory_mib_limit", BigInteger, nullable=False, comment="memory x over-commit"),
    Column("memory_mib_used", BigInteger, nullable=False, server_default=text("0")),
    Column("vms_limit", Integer, nullable=False, comment="guest limit of the hypervisor"),
    Column("vms_used", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("cpu_mhz_used >= 0 AND memory_mib_used >= 0 AND vms_used >= 0", name="not_negative"),
    postgresql_with={"fillfactor": "50"},
)

host_claims = Table(
    "host_claims",
    metadata,
    Column("consumer", Uuid, nullable=False, comment="a VM's or a job's uuid"),
    parent_id("host_id", index=True),
    Column(
        "consumer_kind", SmallInteger, nullable=False, comment="0 VM, 1 migration, 2 reservation of a migration"
    ),
    parent_id("account_id"),
    Column("cpu_mhz", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    created(),
    Index("uq_host_claims_consumer", "consumer", unique=True),
    Index("ix_host_claims_of_jobs", "consumer", postgresql_where=text("consumer_kind <> 0")),
)

account_clusters = Table(
    "account_clusters",
    metadata,
    Column("account_id", BigInteger, primary_key=True),
    Column("cluster_id", BigInteger, primary_key=True),
    Column("vms", Integer, nullable=False, comment="the account's claims on hosts of the cluster"),
    CheckConstraint("vms >= 0", name="not_negative"),
    postgresql_with={"fillfactor": "50"},
)

storage_claims = Table(
    "storage_claims",
    metadata,
    Column("consumer", Uuid, nullable=False, comment="a volume's uuid"),
    parent_id("pool_id", index=True),
    Column("size_bytes", BigInteger, nullable=False),
    created(),
    Index("uq_storage_claims_consumer", "consumer", unique=True),
)

resource_limits = Table(
    "resource_limits",
    metadata,
    Column("owner_kind", Text, primary_key=True, comment="account or domain"),
    Column("owner_id", BigInteger, primary_key=True),
    Column("resource_type", SmallInteger, primary_key=True),
    Column("max", BigInteger, nullable=False, comment="-1: unlimited; storage in bytes"),
    Column(
        "amount_when_set",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="in use when the limit was set below it",
    ),
)

resource_counts = Table(
    "resource_counts",
    metadata,
    Column("owner_kind", Text, primary_key=True, comment="account or domain"),
    Column("owner_id", BigInteger, primary_key=True),
    Column("resource_type", SmallInteger, primary_key=True),
    Column("amount", BigInteger, nullable=False, comment="storage in bytes, memory in MiB"),
    postgresql_with={"fillfactor": "50"},
)

"""The availability of hosts: their management controllers, which switch their power."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import created, identity, metadata

bmcs = Table(
    "bmcs",
    metadata,
    identity(),
    Column("host_id", BigInteger, nullable=False, unique=True),
    Column("driver", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("port", Integer, nullable=False),
    Column("username", Text, nullable=False),
    Column("password_encrypted", LargeBinary, nullable=False, comment="Fernet token"),
    Column("enabled", Boolean, nullable=False, server_default=text("false")),
    Column("power_state", Text, nullable=False, server_default="Disabled"),
    Column("looked", DateTime(timezone=True), comment="when a sweeper began to read its power state last"),
    Column(
        "version",
        BigInteger,
        nullable=False,
        server_default=text("1"),
        comment="grows when it is configured, enabled or disabled: what was read before is of another one",
    ),
    Column("failing", Boolean, nullable=False, server_default=text("false"), comment="an alert was raised"),
    comment="management controllers (BMCs) of hosts",
)

host_ha = Table(
    "host_ha",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("provider", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=text("false")),
    Column("state", Text, nullable=False, server_default="Disabled"),
    Column("since", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column(
        "checked",
        DateTime(timezone=True),
        comment="when its last activity check began; NULL: none since it answered",
    ),
    Column("checks", Integer, nullable=False, server_default=text("0"), comment="activity checks with a result"),
    Column("failed_checks", Integer, nullable=False, server_default=text("0")),
    Column("activity", Text, comment="the mark of its disks' last writes, as another host saw it"),
    Column("recoveries", Integer, nullable=False, server_default=text("0")),
    Column("reset_begun", DateTime(timezone=True), comment="of a reset without a result yet"),
    Column("simulated", JSONB(none_as_null=True), comment="what a simulated host's checks answer; NULL: the truth"),
    Column("version", BigInteger, nullable=False, server_default=text("1"), comment="grows with every transition"),
    comment="high availability of hosts",
)

host_ha_transitions = Table(
    "host_ha_transitions",
    metadata,
    identity(),
    Column("host_id", BigInteger, nullable=False, index=True),
    Column("event", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("checks", Integer, nullable=False),
    Column("recoveries", Integer, nullable=False),
    created(),
    comment="the last transitions of each host",
)

"""Records for drivers whose hypervisors store none, silent hosts, and the state of an upstream cloud."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import INET, JSONB

from bulkdeploy.store.tables.schema import metadata

guest_fences = Table(
    "guest_fences",
    metadata,
    Column("guest_uuid", Uuid, primary_key=True),
    Column("fence", BigInteger, nullable=False, comment="the highest seen"),
    Column("host_uuid", Uuid, comment="NULL: it is on none"),
    Column("destination_uuid", Uuid, comment="where it moves; NULL: nowhere"),
    Column("volume_uuids", ARRAY(Uuid), nullable=False, server_default=text("'{}'"), comment="held with the host"),
    Column("updated", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("details", JSONB(none_as_null=True), comment="what the driver keeps of the guest"),
    Index(
        "ix_guest_fences_volumes",
        "volume_uuids",
        postgresql_using="gin",
        postgresql_where=text("host_uuid IS NOT NULL"),
    ),
)

template_copies = Table(
    "template_copies",
    metadata,
    Column("template_uuid", Uuid, primary_key=True),
    Column("pool_uuid", Uuid, primary_key=True),
    Column("attempt", Integer, nullable=False, server_default=text("1"), comment="part of the copy's name"),
    Column("ready", Boolean, nullable=False, server_default=text("false")),
    Column("percent", SmallInteger, nullable=False, server_default=text("0")),
    Column("renewed", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("checksum", Text, nullable=False, server_default="", comment="of the template as it was copied"),
    Column(
        "first_attempt",
        Integer,
        nullable=False,
        server_default=text("1"),
        comment="those from this one to the last before attempt came to nothing",
    ),
    Column(
        "uuid",
        Uuid,
        nullable=False,
        server_default=text("gen_random_uuid()"),
        comment="the consumer of its claim",
    ),
    Column("file_bytes", BigInteger, comment="what it claims of its pool; NULL: nothing"),
)

host_watches = Table(
    "host_watches",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("answers", Boolean, nullable=False),
    Column(
        "since",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="since when it answers, or does not",
    ),
    comment="hosts that fell silent and are not Up again",
)

guest_filters = Table(
    "guest_filters",
    metadata,
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", Text, comment="of the rules that its guest has; NULL: not known"),
    Column("vm_updated", DateTime(timezone=True), nullable=False, comment="the VM's; a later one began anew"),
    Column("version", BigInteger, nullable=False, server_default=text("1"), comment="grows with every write"),
    comment="the security group rules that running guests were given",
)

unmanaged_guests = Table(
    "unmanaged_guests",
    metadata,
    Column("guest_uuid", Uuid, primary_key=True),
    Column(
        "let_go",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="let go by unmanageVirtualMachine: it runs without a row on purpose",
    ),
    Column("noted", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    comment="guests that hypervisors run and no row owned when they were looked at last",
)

unmanaged_addresses = Table(
    "unmanaged_addresses",
    metadata,
    Column("guest_uuid", Uuid, ForeignKey("unmanaged_guests.guest_uuid", ondelete="CASCADE"), primary_key=True),
    Column("network_id", BigInteger, primary_key=True),
    Column("ip_address", INET, primary_key=True),
    Index("ix_unmanaged_addresses_address", "network_id", "ip_address"),
    comment="addresses of those guests, which no nic gets",
)

counterparts = Table(
    "counterparts",
    metadata,
    Column("uuid", Uuid, primary_key=True, comment="our VM's, or our volume's"),
    Column("attempt", Integer, nullable=False, server_default=text("1"), comment="says its id in the cloud"),
    Column("root_uuid", Uuid, comment="our root volume of a VM, which has the cloud's own id there"),
    Index("ix_counterparts_root_uuid", "root_uuid", postgresql_where=text("root_uuid IS NOT NULL")),
)

learnt_entities = Table(
    "learnt_entities",
    metadata,
    Column("uuid", Uuid, primary_key=True),
    Column("entity", Text, nullable=False),
)
"""What another cloud was seen to have: only that is removed here when it is no longer there."""

followed_clouds = Table(
    "followed_clouds",
    metadata,
    Column("url", Text, primary_key=True),
    Column("leader", Uuid, comment="the process that follows it"),
    Column("leased_until", DateTime(timezone=True), comment="another process may follow it after this"),
    Column("newest_event", DateTime(timezone=True), comment="its events up to this moment, by its clock, are here"),
    Column("seen", DateTime(timezone=True), comment="what it was at this moment, by our clock, is here"),
    Column("imported", DateTime(timezone=True), comment="when it was last read whole"),
)

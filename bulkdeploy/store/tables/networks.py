"""Networks, their address ranges, NICs, and released addresses.

Addresses are assigned in a time that does not depend on the number of used addresses: each range has a cursor
(``next_ip``) that only moves up, and a list of addresses that were released below the cursor. The unique index
``uq_nics_live_address`` ensures that no address is assigned twice.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import INET, JSONB

from bulkdeploy.store.tables.schema import (
    created,
    identity,
    metadata,
    name_column,
    parent_id,
    public_uuid,
    reference,
    removed,
)

mac_address_numbers = Sequence("mac_address_numbers", metadata=metadata)
"""Numbers that MAC addresses are made of: each is handed out once and never again.

They begin at a random multiple of 2^28, so that two installations rarely make the same MAC addresses.
"""

network_offerings = Table(
    "network_offerings",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("display_text", Text, nullable=False),
    Column("guest_type", Text, nullable=False, comment="Isolated, Shared or L2"),
    Column("traffic_type", Text, nullable=False, server_default="Guest"),
    Column("specify_vlan", Boolean, nullable=False, server_default=text("false")),
    Column("services", JSONB, nullable=False, server_default=text("'[]'"), comment="names of services"),
    Column("providers", JSONB, nullable=False, server_default=text("'{}'"), comment="names, by service"),
    Column("capabilities", JSONB, nullable=False, server_default=text("'{}'"), comment="texts by name, by service"),
    Column("specify_ip_ranges", Boolean, nullable=False, server_default=text("false")),
    Column("is_persistent", Boolean, nullable=False, server_default=text("false")),
    Column("conserve_mode", Boolean, nullable=False, server_default=text("true")),
    Column("egress_default_policy", Boolean, nullable=False, server_default=text("false")),
    Column("network_rate", Integer, comment="Mbit/s; NULL: unlimited"),
    Column("max_connections", Integer, comment="of load balancers, which there are none of; NULL: not set"),
    Column(
        "service_offering_id",
        ForeignKey("service_offerings.id"),
        comment="of virtual routers, which there are none of",
    ),
    Column("is_default", Boolean, nullable=False, server_default=text("false")),
    Column("availability", Text, nullable=False, server_default="Optional"),
    Column("state", Text, nullable=False, server_default="Enabled"),
    Column("domain_ids", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("zone_ids", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("sort_key", Integer, nullable=False, server_default=text("0")),
    created(),
    removed(),
    Column("tags", Text, comment="of the physical networks that its networks are made on; NULL: any"),
    Index("uq_network_offerings_live_name", "name", unique=True, postgresql_where=text("removed IS NULL")),
)

physical_networks = Table(
    "physical_networks",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("zone_id", "zones.id", index=True),
    Column("state", Text, nullable=False, server_default="Enabled"),
    Column("isolation_methods", Text, nullable=False, server_default="VLAN"),
    Column("vlan_range", Text),
    Column("network_speed", Text),
    Column("broadcast_domain_range", Text, nullable=False, server_default="ZONE"),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    removed(),
)

dedicated_vlan_ranges = Table(
    "dedicated_vlan_ranges",
    metadata,
    identity(),
    public_uuid(),
    reference("physical_network_id", "physical_networks.id", index=True),
    reference("account_id", "accounts.id", index=True),
    Column("first_vlan", Integer, nullable=False),
    Column("last_vlan", Integer, nullable=False),
    comment="VLANs that only new networks of one account get",
)

traffic_types = Table(
    "traffic_types",
    metadata,
    identity(),
    public_uuid(),
    reference("physical_network_id", "physical_networks.id"),
    Column("traffic_type", Text, nullable=False, comment="Public, Guest, Management, Storage or Control"),
    Column("labels", JSONB, nullable=False, server_default=text("'{}'"), comment="bridge, by wire parameter"),
    removed(),
    Index(
        "uq_traffic_types_live",
        "physical_network_id",
        "traffic_type",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

network_service_providers = Table(
    "network_service_providers",
    metadata,
    identity(),
    public_uuid(),
    reference("physical_network_id", "physical_networks.id"),
    name_column(),
    Column("state", Text, nullable=False, server_default="Disabled"),
    Column("element_enabled", Boolean, nullable=False, server_default=text("false")),
    Column("services", ARRAY(Text), comment="NULL: all that the provider has"),
    removed(),
    Index(
        "uq_network_service_providers_live_name",
        "physical_network_id",
        "name",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

networks = Table(
    "networks",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("display_text", Text, nullable=False),
    reference("zone_id", "zones.id", index=True),
    reference("network_offering_id", "network_offerings.id"),
    reference("physical_network_id", "physical_networks.id", nullable=True),
    Column("guest_type", Text, nullable=False),
    Column("acl_type", Text, nullable=False, comment="Account or Domain"),
    reference("account_id", "accounts.id", nullable=False, index=True),
    reference("domain_id", "domains.id"),
    Column("subdomain_access", Boolean, nullable=False, server_default=text("true")),
    Column("cidr", Text),
    Column("gateway", Text),
    Column("netmask", Text),
    Column("vlan", Text),
    Column("network_domain", Text),
    Column("dns1", Text, comment="NULL: the zone's"),
    Column("dns2", Text),
    Column("public_mtu", Integer, comment="bytes; NULL: not said"),
    Column("private_mtu", Integer, comment="bytes; NULL: not said"),
    Column("is_default", Boolean, nullable=False, server_default=text("false")),
    Column("is_system", Boolean, nullable=False, server_default=text("false")),
    Column("state", Text, nullable=False, server_default="Implemented"),
    created(),
    removed(),
)

network_permissions = Table(
    "network_permissions",
    metadata,
    Column("network_id", BigInteger, primary_key=True),
    Column(
        "account_id", BigInteger, primary_key=True, comment="not the owner, whose VMs may be in the network anyway"
    ),
    Index("ix_network_permissions_account_id", "account_id"),
)

ip_ranges = Table(
    "ip_ranges",
    metadata,
    identity(),
    public_uuid(),
    reference("network_id", "networks.id", nullable=True, index=True),
    reference("zone_id", "zones.id", nullable=True, index=True),
    reference("physical_network_id", "physical_networks.id", nullable=True),
    reference("pod_id", "pods.id", nullable=True),
    Column("start_ip", INET, nullable=False),
    Column("end_ip", INET, nullable=False),
    Column("next_ip", INET, nullable=False, comment="lowest address never handed out; past end_ip when spent"),
    Column("gateway", Text, nullable=False),
    Column("netmask", Text, nullable=False),
    Column("vlan", Text),
    removed(),
    CheckConstraint("(network_id IS NULL) <> (zone_id IS NULL)", name="of_a_network_or_public"),
)
"""Addresses of a guest network, or a zone's public ones (``zone_id``), which no VM gets."""

released_addresses = Table(
    "released_addresses",
    metadata,
    reference("ip_range_id", "ip_ranges.id"),
    Column("ip_address", INET, nullable=False),
    UniqueConstraint("ip_range_id", "ip_address"),
)

nics = Table(
    "nics",
    metadata,
    identity(),
    public_uuid(),
    parent_id("vm_id"),
    parent_id("network_id"),
    parent_id("ip_range_id", nullable=True),
    Column("ip_address", INET),
    Column("mac_address", Text, nullable=False),
    Column("gateway", Text),
    Column("netmask", Text),
    Column("device_id", Integer, nullable=False),
    Column("is_default", Boolean, nullable=False),
    Column(
        "vm_name",
        Text,
        comment="its VM's name in lower case, which no other VM gets in the network;"
        " NULL: a generated name, or the VM is destroyed",
    ),
    Column(
        "has_requested_ip",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="a caller named ip_address",
    ),
    Column(
        "has_requested_mac",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="a caller named mac_address",
    ),
    created(),
    removed(),
    # One live NIC per device of a VM; not partial, so that the planner always uses it to find a VM's NICs.
    Index("uq_nics_device", "vm_id", "device_id", "removed", unique=True, postgresql_nulls_not_distinct=True),
    Index(
        "uq_nics_live_address",
        "network_id",
        "ip_address",
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
    Index("uq_nics_live_mac", "mac_address", unique=True, postgresql_where=text("removed IS NULL")),
    Index(
        "uq_nics_live_vm_name",
        "network_id",
        "vm_name",
        unique=True,
        postgresql_where=text("removed IS NULL AND vm_name IS NOT NULL"),
    ),
)

nic_secondary_ips = Table(
    "nic_secondary_ips",
    metadata,
    identity(),
    public_uuid(),
    parent_id("nic_id", index=True),
    parent_id("network_id"),
    parent_id("ip_range_id"),
    Column("ip_address", INET, nullable=False),
    created(),
    Index("uq_nic_secondary_ips_address", "network_id", "ip_address", unique=True),
)
"""Addresses that a nic has besides its first one; taking or giving back an address locks its range."""

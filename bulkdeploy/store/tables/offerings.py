"""Service offerings, disk offerings, templates and ISOs, guest OS types."""

from sqlalchemy import ARRAY, BigInteger, Boolean, Column, Index, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import (
    created,
    identity,
    metadata,
    name_column,
    public_uuid,
    reference,
    removed,
)

NO_IDS = text("'{}'")
NO_DETAILS = text("'{}'")

service_offerings = Table(
    "service_offerings",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("display_text", Text, nullable=False),
    Column("cpu_number", Integer, comment="cores; NULL: custom"),
    Column("cpu_mhz", Integer, comment="speed of one core; NULL: custom"),
    Column("memory_mib", Integer, comment="NULL: custom"),
    Column("min_cpu_number", Integer),
    Column("max_cpu_number", Integer),
    Column("min_memory_mib", Integer),
    Column("max_memory_mib", Integer),
    Column("root_disk_gib", Integer, comment="NULL: the template's size"),
    Column("storage_type", Text, nullable=False, server_default="shared"),
    Column("storage_tags", ARRAY(Text), nullable=False, server_default=NO_IDS),
    Column("host_tags", ARRAY(Text), nullable=False, server_default=NO_IDS),
    Column("deployment_planner", Text),
    Column("offer_ha", Boolean, nullable=False, server_default=text("false")),
    Column("limit_cpu_use", Boolean, nullable=False, server_default=text("false")),
    Column("dynamic_scaling", Boolean, nullable=False, server_default=text("true")),
    Column(
        "is_volatile",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="whether a reboot replaces the root disk of a VM by a new one",
    ),
    Column("network_rate", Integer),
    Column("provisioning_type", Text, nullable=False, server_default="thin"),
    Column("disk_parameters", JSONB, nullable=False, server_default=NO_DETAILS),
    Column("system_vm_type", Text, comment="NULL: for VMs of users"),
    Column("lease_days", Integer, comment="the lease of its VMs; NULL: none"),
    Column("lease_action", Text),
    Column("domain_ids", ARRAY(BigInteger), nullable=False, server_default=NO_IDS, comment="empty: public"),
    Column("zone_ids", ARRAY(BigInteger), nullable=False, server_default=NO_IDS, comment="empty: every zone"),
    Column("details", JSONB, nullable=False, server_default=NO_DETAILS),
    Column("state", Text, nullable=False, server_default="Active"),
    Column("sort_key", Integer, nullable=False, server_default=text("0")),
    created(),
    removed(),
)

disk_offerings = Table(
    "disk_offerings",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("display_text", Text, nullable=False),
    Column("disk_gib", Integer, nullable=False, comment="0 where customized"),
    Column("customized", Boolean, nullable=False, server_default=text("false")),
    Column("storage_type", Text, nullable=False, server_default="shared"),
    Column("storage_tags", ARRAY(Text), nullable=False, server_default=NO_IDS),
    Column("provisioning_type", Text, nullable=False, server_default="thin"),
    Column("disk_parameters", JSONB, nullable=False, server_default=NO_DETAILS),
    Column("display_offering", Boolean, nullable=False, server_default=text("true")),
    Column("domain_ids", ARRAY(BigInteger), nullable=False, server_default=NO_IDS),
    Column("zone_ids", ARRAY(BigInteger), nullable=False, server_default=NO_IDS),
    Column("details", JSONB, nullable=False, server_default=NO_DETAILS),
    Column("state", Text, nullable=False, server_default="Active"),
    Column("sort_key", Integer, nullable=False, server_default=text("0")),
    created(),
    removed(),
)

os_categories = Table("os_categories", metadata, identity(), public_uuid(), name_column())

os_types = Table(
    "os_types",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("category_id", "os_categories.id", nullable=True),
    Column("user_defined", Boolean, nullable=False, server_default=text("false")),
    Column("display", Boolean, nullable=False, server_default=text("true")),
    removed(),
    Index("uq_os_types_live_name", "name", unique=True, postgresql_where=text("removed IS NULL")),
)

templates = Table(
    "templates",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("display_text", Text, nullable=False),
    Column("kind", Text, nullable=False, comment="template or iso"),
    Column("template_type", Text, nullable=False, server_default="USER"),
    Column("format", Text, nullable=False),
    Column("hypervisor", Text, comment="NULL or None: the caller must name one"),
    reference("os_type_id", "os_types.id", nullable=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("physical_size_bytes", BigInteger, nullable=False),
    reference("account_id", "accounts.id", index=True),
    Column("is_public", Boolean, nullable=False, server_default=text("true")),
    Column("is_featured", Boolean, nullable=False, server_default=text("false")),
    Column("is_extractable", Boolean, nullable=False, server_default=text("false")),
    Column("bootable", Boolean, nullable=False, server_default=text("true")),
    Column("password_enabled", Boolean, nullable=False, server_default=text("false")),
    Column("sshkey_enabled", Boolean, nullable=False, server_default=text("false")),
    Column("requires_hvm", Boolean, nullable=False, server_default=text("true")),
    Column("dynamically_scalable", Boolean, nullable=False, server_default=text("true")),
    Column("template_tag", Text, comment="a host must carry it"),
    Column("url", Text),
    Column("checksum", Text),
    Column("arch", Text, nullable=False, server_default="x86_64"),
    Column("details", JSONB, nullable=False, server_default=NO_DETAILS),
    Column("sort_key", Integer, nullable=False, server_default=text("0")),
    created(),
    removed(),
    Column(
        "fetched_bytes",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="size of the file that was fetched; 0: none was",
    ),
    Column("source_vm_id", BigInteger, comment="the VM whose volume a job is making it of; NULL: no job makes it"),
    Column("user_data_id", BigInteger, comment="registered user data that VMs get; NULL: none"),
    Column("user_data_policy", Text, comment="a UserDataPolicy; NULL: there is no user data"),
    Index("ix_templates_user_data_id", "user_data_id", postgresql_where=text("user_data_id IS NOT NULL")),
    Index("ix_templates_source_vm_id", "source_vm_id", postgresql_where=text("source_vm_id IS NOT NULL")),
)

template_zones = Table(
    "template_zones",
    metadata,
    Column("template_id", BigInteger, primary_key=True),
    Column("zone_id", BigInteger, primary_key=True),
    Column("ready", Boolean, nullable=False, server_default=text("true")),
    Column("status", Text, nullable=False, server_default="Download Complete"),
    Index("ix_template_zones_zone_id", "zone_id"),
)

template_permissions = Table(
    "template_permissions",
    metadata,
    Column("template_id", BigInteger, primary_key=True),
    Column("account_id", BigInteger, primary_key=True),
)

"""The objects to which a deploy call refers, as immutable values (one file: one statement per kind of object)."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from bulkdeploy.domain.accounts.accounts import AccountState, Owner
from bulkdeploy.domain.deployments.deployment import (
    AffinityFacts,
    DiskOfferingFacts,
    NetworkFacts,
    OfferingFacts,
    TemplateFacts,
    UserDataPolicy,
    ZoneFacts,
)
from bulkdeploy.domain.infrastructure.topology import (
    AffinityType,
    AllocationState,
    NetworkType,
    StorageType,
    TemplateKind,
)
from bulkdeploy.domain.virtual_machines.device_parameters import VARIANTS
from bulkdeploy.domain.virtual_machines.firmware import UEFI


def read_zone(connection: Connection, zone_id: int) -> ZoneFacts | None:
    """Return the zone, or None if it was removed."""
    row = connection.execute(
        text("SELECT * FROM zones WHERE id = :id AND removed IS NULL"), {"id": zone_id}
    ).first()
    if row is None:
        return None
    return ZoneFacts(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        network_type=NetworkType(row.network_type),
        security_groups_enabled=row.security_groups_enabled,
        local_storage_enabled=row.local_storage_enabled,
        enabled=row.allocation_state == AllocationState.ENABLED,
    )


def read_offering(connection: Connection, offering_id: int) -> OfferingFacts | None:
    """Return the service offering, or None if it was removed."""
    row = connection.execute(
        text("SELECT * FROM service_offerings WHERE id = :id AND removed IS NULL"), {"id": offering_id}
    ).first()
    if row is None:
        return None
    return OfferingFacts(
        id=row.id,
        name=row.name,
        cpu_number=row.cpu_number,
        cpu_mhz=row.cpu_mhz,
        memory_mib=row.memory_mib,
        min_cpu_number=row.min_cpu_number,
        max_cpu_number=row.max_cpu_number,
        min_memory_mib=row.min_memory_mib,
        max_memory_mib=row.max_memory_mib,
        root_disk_gib=row.root_disk_gib,
        storage_type=StorageType(row.storage_type),
        storage_tags=frozenset(row.storage_tags),
        host_tags=frozenset(row.host_tags),
        planner=row.deployment_planner,
        domain_ids=tuple(row.domain_ids),
        zone_ids=tuple(row.zone_ids),
        active=row.state == "Active" and row.system_vm_type is None,
        details={**row.details, **row.disk_parameters},
        lease_days=row.lease_days,
        lease_action=row.lease_action,
    )


def read_disk_offering(connection: Connection, offering_id: int) -> DiskOfferingFacts | None:
    """Return the disk offering, or None if it was removed."""
    row = connection.execute(
        text("SELECT * FROM disk_offerings WHERE id = :id AND removed IS NULL"), {"id": offering_id}
    ).first()
    if row is None:
        return None
    return DiskOfferingFacts(
        id=row.id,
        name=row.name,
        disk_gib=row.disk_gib,
        customized=row.customized,
        storage_type=StorageType(row.storage_type),
        storage_tags=frozenset(row.storage_tags),
        domain_ids=tuple(row.domain_ids),
        zone_ids=tuple(row.zone_ids),
        active=row.state == "Active",
        details={**row.details, **row.disk_parameters},
    )


def read_template(connection: Connection, template_id: int, zone_id: int, owner: Owner) -> TemplateFacts | None:
    """Return the template or ISO with its readiness in the zone, or None if it was removed."""
    row = connection.execute(
        text(
            "SELECT t.*, coalesce(z.ready, false) AS ready, p.account_id IS NOT NULL AS shared,"
            " u.content AS user_data FROM templates t"
            " LEFT JOIN user_data u ON u.id = t.user_data_id AND u.removed IS NULL"
            " LEFT JOIN template_zones z ON z.template_id = t.id AND z.zone_id = :zone"
            " LEFT JOIN template_permissions p ON p.template_id = t.id AND p.account_id = :owner"
            " WHERE t.id = :id AND t.removed IS NULL"
        ),
        {"id": template_id, "zone": zone_id, "owner": owner.account_id},
    ).first()
    if row is None:
        return None
    return TemplateFacts(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        kind=TemplateKind(row.kind),
        hypervisor=row.hypervisor if row.hypervisor not in (None, "None") else None,
        size_bytes=row.size_bytes,
        bootable=row.bootable,
        password_enabled=row.password_enabled,
        ready=row.ready,
        tag=row.template_tag,
        owner_id=row.account_id,
        is_public=row.is_public,
        shared_with_owner=row.shared,
        variants=tuple(filter(None, map(str.strip, row.details.get(VARIANTS, "").split(",")))),
        uefi=row.details.get(UEFI),
        user_data=row.user_data,
        user_data_policy=None if row.user_data_policy is None else UserDataPolicy(row.user_data_policy),
    )


def read_networks(
    connection: Connection, *, ids: Sequence[int] | None = None, zone_id: int | None = None
) -> list[NetworkFacts]:
    """Return the live networks with these ids, or all live networks of a zone, ordered by id."""
    rows = connection.execute(
        text(
            "SELECT n.*, d.lineage, o.services,"
            " ARRAY(SELECT p.account_id FROM network_permissions p WHERE p.network_id = n.id) AS shared_with"
            " FROM networks n JOIN domains d ON d.id = n.domain_id"
            " JOIN network_offerings o ON o.id = n.network_offering_id WHERE n.removed IS NULL"
            " AND (CAST(:ids AS bigint[]) IS NULL OR n.id = ANY(:ids))"
            " AND (CAST(:zone AS bigint) IS NULL OR n.zone_id = :zone) ORDER BY n.id"
        ),
        {"ids": None if ids is None else list(ids), "zone": zone_id},
    )
    return [
        NetworkFacts(
            id=row.id,
            uuid=row.uuid,
            name=row.name,
            zone_id=row.zone_id,
            guest_type=row.guest_type,
            acl_type=row.acl_type,
            account_id=row.account_id,
            domain_lineage=row.lineage,
            subdomain_access=row.subdomain_access,
            is_default=row.is_default,
            is_system=row.is_system,
            has_security_groups="SecurityGroup" in row.services,
            has_user_data="UserData" in row.services,
            network_domain=row.network_domain,
            shared_with=frozenset(row.shared_with),
        )
        for row in rows
    ]


def read_affinity_groups(
    connection: Connection, owner: Owner, *, ids: Sequence[int] | None = None, names: Sequence[str] | None = None
) -> list[AffinityFacts]:
    """Return live affinity groups by id or by name, ordered by id. Unknown ids and names are omitted.

    Names are searched among the groups of the owner, of the owner's domain and of the domains above it.
    """
    rows = connection.execute(
        text(
            "SELECT g.*, d.lineage FROM affinity_groups g JOIN domains d ON d.id = g.domain_id"
            " WHERE g.removed IS NULL AND (CAST(:ids AS bigint[]) IS NULL OR g.id = ANY(:ids))"
            " AND (CAST(:names AS text[]) IS NULL OR (g.name = ANY(:names) AND (g.account_id = :account"
            "   OR (g.account_id IS NULL AND :lineage LIKE d.lineage || '%')))) ORDER BY g.id"
        ),
        {
            "ids": None if ids is None else list(ids),
            "names": None if names is None else list(names),
            "account": owner.account_id,
            "lineage": owner.lineage,
        },
    )
    return [
        AffinityFacts(row.id, row.name, AffinityType(row.affinity_type), row.account_id, row.lineage)
        for row in rows
    ]


def read_security_groups(
    connection: Connection, owner: Owner, *, ids: Sequence[int] | None = None, names: Sequence[str] | None = None
) -> dict[str, tuple[int, int]]:
    """Return the ids of live security groups and of their accounts, by name or by the text of the id.

    The keys are ids if ``ids`` is given, otherwise names, which are searched among the owner's groups. The groups
    cannot be deleted until the transaction ends.
    """
    rows = connection.execute(
        text(
            "SELECT id, name, account_id FROM security_groups WHERE removed IS NULL"
            " AND (CAST(:ids AS bigint[]) IS NULL OR id = ANY(:ids))"
            " AND (CAST(:names AS text[]) IS NULL OR (name = ANY(:names) AND account_id = :account))"
            " ORDER BY id FOR SHARE"
        ),
        {
            "ids": None if ids is None else list(ids),
            "names": None if names is None else list(names),
            "account": owner.account_id,
        },
    )
    return {(row.name if ids is None else str(row.id)): (row.id, row.account_id) for row in rows}


def ensure_default_security_groups(connection: Connection, account_ids: Sequence[int]) -> None:
    """Create the missing security groups named ``default`` of these accounts (cloudstack-protocol.md 5.4)."""
    connection.execute(
        text(
            "INSERT INTO security_groups (name, description, account_id)"
            " SELECT 'default', 'Default Security Group', unnest(CAST(:accounts AS bigint[]))"
            " ON CONFLICT DO NOTHING"
        ),
        {"accounts": list(account_ids)},
    )


def ensure_default_security_group(connection: Connection, owner: Owner) -> int:
    """Return the id of the owner's security group ``default``, which is created if it does not exist."""
    ensure_default_security_groups(connection, [owner.account_id])
    return int(
        connection.execute(
            text(
                "SELECT id FROM security_groups"
                " WHERE account_id = :account AND name = 'default' AND removed IS NULL"
            ),
            {"account": owner.account_id},
        ).scalar_one()
    )


def count_key_pairs(connection: Connection, owner: Owner, names: Sequence[str]) -> int:
    """Return how many of these key-pair names the owner has."""
    return int(
        connection.execute(
            text(
                "SELECT count(*) FROM ssh_key_pairs WHERE account_id = :account AND name = ANY(:names)"
                " AND removed IS NULL"
            ),
            {"account": owner.account_id, "names": list(names)},
        ).scalar_one()
    )


def names_in_use(connection: Connection, names: Sequence[str], network_ids: Sequence[int]) -> set[str]:
    """Return the host names, in lower case, that a live VM in one of these networks already uses.

    Only names out of ``names`` are returned. Case is ignored.
    """
    rows = connection.execute(
        text(
            "SELECT DISTINCT lower(v.name) FROM virtual_machines v JOIN nics n ON n.vm_id = v.id"
            " WHERE lower(v.name) = ANY(:names) AND v.removed IS NULL AND v.state NOT IN ('Destroyed', 'Expunging')"
            " AND n.removed IS NULL AND n.network_id = ANY(:networks)"
        ),
        {"names": [name.lower() for name in names], "networks": list(network_ids)},
    )
    return set(rows.scalars())


def host_problem(connection: Connection, host_id: int, zone_id: int) -> str | None:
    """Return the reason why a requested host cannot accept VMs, or None if its zone and its state allow them."""
    row = connection.execute(text("SELECT * FROM hosts WHERE id = :id"), {"id": host_id}).one()
    if row.zone_id != zone_id:
        return "it is not in the zone"
    if row.removed is not None or row.state != "Up" or row.resource_state != "Enabled":
        return f"it is not in the right state: state {row.state}, resource state {row.resource_state}"
    return None


def account_state(connection: Connection, account_id: int) -> AccountState:
    """Return the state of an account, such as enabled or disabled."""
    return AccountState(
        connection.execute(text("SELECT state FROM accounts WHERE id = :id"), {"id": account_id}).scalar_one()
    )


def pin_zone(connection: Connection, table: str, row_id: int) -> int | None:
    """Return the id of the zone of a pod or cluster, or None if the pod or cluster was removed.

    ``table`` is the name of the table that contains the row ``row_id``.
    """
    row = connection.execute(
        text(f"SELECT zone_id, removed FROM {table} WHERE id = :id"),  # noqa: S608 - pods or clusters
        {"id": row_id},
    ).one()
    return None if row.removed is not None else int(row.zone_id)

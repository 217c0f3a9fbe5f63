"""Writing what an inventory offers: service offerings, disk offerings, templates and ISOs."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Table, select

from bulkdeploy.domain.inventory_catalog import DiskOffering, ServiceOffering, Template
from bulkdeploy.domain.inventory_owners import AccountName
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.store.inventory.inventory_staging import Changes, InventoryConflict, Upsert, merge
from bulkdeploy.store.tables.offerings import (
    disk_offerings,
    os_types,
    service_offerings,
    template_permissions,
    template_zones,
    templates,
)

SERVICE_OFFERINGS = Upsert(service_offerings, ("name",))
DISK_OFFERINGS = Upsert(disk_offerings, ("name",))
TEMPLATES = Upsert(templates, ("kind", "account_id", "name"))


def write_service_offerings(
    connection: Connection,
    offerings: Sequence[ServiceOffering],
    zone_id: int,
    domain_ids: Mapping[str, int],
    changes: Changes,
) -> dict[str, int]:
    """The service offerings; ids by name."""
    zones = _zones_by_name(connection, service_offerings)
    rows = [
        {
            "name": one.name,
            "display_text": one.display_text,
            "cpu_number": one.cpu_number,
            "cpu_mhz": one.cpu_mhz,
            "memory_mib": one.memory_mib,
            "min_cpu_number": one.min_cpu_number,
            "max_cpu_number": one.max_cpu_number,
            "min_memory_mib": one.min_memory_mib,
            "max_memory_mib": one.max_memory_mib,
            "root_disk_gib": one.root_disk_gib,
            "storage_type": one.storage_type,
            "storage_tags": one.storage_tags,
            "host_tags": one.host_tags,
            "deployment_planner": one.planner,
            "offer_ha": one.offer_ha,
            "limit_cpu_use": one.limit_cpu_use,
            "dynamic_scaling": one.dynamic_scaling,
            "network_rate": one.network_rate,
            "domain_ids": sorted(domain_ids[path] for path in one.domains),
            "zone_ids": sorted({*zones.get(one.name, ()), zone_id}) if one.zone_only else (),
            "details": one.details,
            "state": one.state,
            "sort_key": one.sort_key,
        }
        for one in offerings
    ]
    ids = SERVICE_OFFERINGS.write(connection, rows, changes, "service offerings")
    return dict(zip((one.name for one in offerings), ids, strict=True))


def write_disk_offerings(
    connection: Connection,
    offerings: Sequence[DiskOffering],
    zone_id: int,
    domain_ids: Mapping[str, int],
    changes: Changes,
) -> None:
    """The disk offerings."""
    zones = _zones_by_name(connection, disk_offerings)
    rows = [
        {
            "name": one.name,
            "display_text": one.display_text,
            "disk_gib": one.disk_gib,
            "customized": one.customized,
            "storage_type": one.storage_type,
            "storage_tags": one.storage_tags,
            "provisioning_type": one.provisioning_type,
            "display_offering": one.display_offering,
            "domain_ids": sorted(domain_ids[path] for path in one.domains),
            "zone_ids": sorted({*zones.get(one.name, ()), zone_id}) if one.zone_only else (),
            "details": one.details,
            "state": one.state,
            "sort_key": one.sort_key,
        }
        for one in offerings
    ]
    DISK_OFFERINGS.write(connection, rows, changes, "disk offerings")


def _zones_by_name(connection: Connection, table: Table) -> dict[str, Sequence[int]]:
    """The zones that offerings are limited to already; the oldest of a name counts."""
    rows = connection.execute(
        select(table.c.name, table.c.zone_ids).where(table.c.removed.is_(None)).order_by(table.c.id.desc())
    )
    return {row.name: row.zone_ids for row in rows}


def write_templates(
    connection: Connection,
    described: Sequence[Template],
    zone_id: int,
    account_ids: Mapping[AccountName, int],
    changes: Changes,
) -> dict[tuple[TemplateKind, str, AccountName], int]:
    """Templates and ISOs, whether they are ready in the zone, and who may use them.

    Raises:
        InventoryConflict: an OS type does not exist.
    """
    os_type_ids = {row.name: row.id for row in connection.execute(select(os_types.c.name, os_types.c.id))}
    for one in described:
        if one.os_type is not None and one.os_type not in os_type_ids:
            known = ", ".join(sorted(os_type_ids))
            raise InventoryConflict(one.where, f"os_type: there is no OS type {one.os_type!r}; there are {known}")
    rows = [_template_row(one, account_ids, os_type_ids) for one in described]
    ids = TEMPLATES.write(connection, rows, changes, "templates")
    readiness = [
        {"template_id": template_id, "zone_id": zone_id, "ready": one.ready, "status": one.status}
        for template_id, one in zip(ids, described, strict=True)
    ]
    merge(connection, template_zones, readiness, changes, "templates in the zone")
    permissions = [
        {"template_id": template_id, "account_id": account_ids[account]}
        for template_id, one in zip(ids, described, strict=True)
        for account in one.shared_with
    ]
    merge(connection, template_permissions, permissions, changes, "template permissions")
    return {(one.kind, one.name, one.owner): found for one, found in zip(described, ids, strict=True)}


def _template_row(
    one: Template, account_ids: Mapping[AccountName, int], os_type_ids: Mapping[str, int]
) -> dict[str, object]:
    return {
        "kind": one.kind,
        "account_id": account_ids[one.owner],
        "name": one.name,
        "display_text": one.display_text,
        "template_type": one.template_type,
        "format": one.format,
        "hypervisor": one.hypervisor,
        "os_type_id": None if one.os_type is None else os_type_ids[one.os_type],
        "size_bytes": one.size_bytes,
        "physical_size_bytes": one.physical_size_bytes,
        "is_public": one.is_public,
        "is_featured": one.is_featured,
        "is_extractable": one.is_extractable,
        "bootable": one.bootable,
        "password_enabled": one.password_enabled,
        "sshkey_enabled": one.sshkey_enabled,
        "requires_hvm": one.requires_hvm,
        "dynamically_scalable": one.dynamically_scalable,
        "template_tag": one.template_tag,
        "url": one.url,
        "checksum": one.checksum,
        "arch": one.arch,
        "details": one.details,
        "sort_key": one.sort_key,
    }

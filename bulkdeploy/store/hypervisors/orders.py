"""The deploy parameters of VMs by uuid, for an upstream cloud with the same uuids."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

_ORDER = text(
    "SELECT z.uuid AS zone_uuid, o.uuid AS offering_uuid, t.uuid AS template_uuid, v.hypervisor, v.display_name,"
    " array_remove(ARRAY[CASE WHEN o.cpu_number IS NULL THEN 'cpuNumber' END,"
    "   CASE WHEN o.cpu_mhz IS NULL THEN 'cpuSpeed' END, CASE WHEN o.memory_mib IS NULL THEN 'memory' END], NULL)"
    "   AS custom_sizes,"
    " coalesce(nullif(o.root_disk_gib, 0) * 1073741824, t.size_bytes) AS root_bytes,"
    " a.name AS owner, d.uuid AS domain_uuid, p.uuid AS project_uuid,"
    " ARRAY(SELECT g.uuid FROM vm_security_groups m JOIN security_groups g ON g.id = m.security_group_id"
    "   WHERE m.vm_id = v.id ORDER BY g.id) AS security_group_uuids,"
    " ARRAY(SELECT g.uuid FROM vm_affinity_groups m JOIN affinity_groups g ON g.id = m.affinity_group_id"
    "   JOIN learnt_entities l ON l.uuid = g.uuid WHERE m.vm_id = v.id AND g.removed IS NULL ORDER BY g.id)"
    "   AS affinity_group_uuids,"
    " (SELECT coalesce(jsonb_object_agg(k.name, k.public_key), '{}') FROM ssh_key_pairs k"
    "   WHERE k.account_id = v.account_id AND k.removed IS NULL AND CASE WHEN v.key_pairs IS NULL"
    "   THEN y.config -> 'keypairs' ? k.name ELSE k.name = ANY(v.key_pairs) END) AS key_pairs,"
    " (SELECT coalesce(jsonb_object_agg(s.uuid, f.uuid), '{}') FROM volumes s JOIN disk_offerings f"
    "   ON f.id = s.disk_offering_id WHERE s.vm_id = v.id AND s.removed IS NULL) AS disk_offerings,"
    " ARRAY(SELECT s.uuid FROM volumes s JOIN disk_offerings f ON f.id = s.disk_offering_id"
    "   WHERE s.vm_id = v.id AND s.removed IS NULL AND f.customized) AS custom_disks"
    " FROM virtual_machines v JOIN zones z ON z.id = v.zone_id JOIN service_offerings o"
    " ON o.id = v.service_offering_id JOIN templates t ON t.id = v.template_id JOIN accounts a"
    " ON a.id = v.account_id JOIN domains d ON d.id = a.domain_id LEFT JOIN projects p ON p.account_id = a.id"
    " LEFT JOIN deployments y ON y.id = v.deployment_id WHERE v.uuid = :guest"
)


def order(connection: Connection, guest_uuid: UUID) -> Row[Any] | None:
    """Return the fields of ``drivers.records.GuestOrder`` for a VM, or None if there is no such VM."""
    return connection.execute(_ORDER, {"guest": guest_uuid}).first()


_GUESTS = text("SELECT uuid FROM virtual_machines WHERE uuid = ANY(CAST(:uuids AS uuid[]))")
_VOLUMES = text("SELECT uuid FROM volumes WHERE uuid = ANY(CAST(:uuids AS uuid[]))")


def known_guests(connection: Connection, uuids: Collection[UUID]) -> frozenset[UUID]:
    """Return the uuids out of ``uuids`` that belong to VMs, including removed VMs."""
    return frozenset(connection.execute(_GUESTS, {"uuids": list(uuids)}).scalars())


def known_volumes(connection: Connection, uuids: Collection[UUID]) -> frozenset[UUID]:
    """Return the uuids out of ``uuids`` that belong to volumes, including removed volumes."""
    return frozenset(connection.execute(_VOLUMES, {"uuids": list(uuids)}).scalars())

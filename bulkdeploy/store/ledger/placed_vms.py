"""The rows that are read and written to place existing VMs: VMs, volumes, group members."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.database.engine import TransactionConflict

_VMS = text(
    "WITH calls AS MATERIALIZED (SELECT id, bulk, config ->> 'planner' AS planner,"
    "     CAST(config ->> 'pod_id' AS bigint) AS called_pod_id,"
    "     CAST(config ->> 'cluster_id' AS bigint) AS called_cluster_id,"
    "     CAST(config ->> 'host_id' AS bigint) AS called_host_id FROM deployments"
    "   WHERE id IN (SELECT deployment_id FROM virtual_machines WHERE id = ANY(CAST(:vms AS bigint[]))))"
    " SELECT v.id, v.uuid, v.account_id, v.zone_id, v.host_id, v.last_host_id, v.hypervisor, v.cpu_number,"
    "   v.cpu_mhz, v.memory_mib, v.service_offering_id, v.template_id, v.deployment_id, o.host_tags,"
    "   o.storage_tags, o.storage_type, o.deployment_planner, t.template_tag, d.bulk, d.planner, d.called_pod_id,"
    "   d.called_cluster_id, d.called_host_id"
    " FROM virtual_machines v JOIN service_offerings o ON o.id = v.service_offering_id"
    " JOIN templates t ON t.id = v.template_id JOIN calls d ON d.id = v.deployment_id"
    " WHERE v.id = ANY(CAST(:vms AS bigint[]))"
)
"""The configuration of a deployment can contain long user data. It is read once, not for each VM."""


def read_vms(connection: Connection, vm_ids: Collection[int]) -> dict[int, Row[Any]]:
    """Return the rows of VMs by internal id, with the columns that placement needs.

    These include tags and planner of the offering, the tag of the template, and the planner, pod, cluster and host
    that the call of the deployment named.
    """
    rows = connection.execute(_VMS, {"vms": int_array(vm_ids)}).all()
    return {row.id: row for row in rows}


def read_vm(connection: Connection, vm_id: int) -> Row[Any]:
    """Return one VM in the format of ``read_vms``."""
    return read_vms(connection, [vm_id])[vm_id]


def vm_of_deployment(connection: Connection, deployment_id: int) -> int:
    """Return the id of one VM of a deployment. A removed VM is returned only if no live VM is left."""
    query = text(
        "SELECT id FROM virtual_machines WHERE deployment_id = :deployment ORDER BY removed IS NOT NULL, id LIMIT 1"
    )
    return int(connection.execute(query, {"deployment": deployment_id}).scalar_one())


def read_vm_volumes(connection: Connection, vm_ids: Collection[int]) -> dict[int, list[Row[Any]]]:
    """Return the live volumes of each VM, ordered by device number, by VM id.

    The columns ``scope``, ``cluster_id`` and ``host_id`` of the pool are None if the volume has no pool yet.
    """
    found: dict[int, list[Row[Any]]] = {vm_id: [] for vm_id in vm_ids}
    rows = connection.execute(
        text(
            "SELECT v.vm_id, v.uuid, v.size_bytes, v.disk_offering_id, p.scope, p.cluster_id, p.host_id,"
            " o.storage_type, o.storage_tags FROM volumes v LEFT JOIN storage_pools p ON p.id = v.pool_id"
            " LEFT JOIN disk_offerings o ON o.id = v.disk_offering_id"
            " WHERE v.vm_id = ANY(CAST(:vms AS bigint[])) AND v.removed IS NULL ORDER BY v.device_id, v.id"
        ),
        {"vms": int_array(vm_ids)},
    ).all()
    for row in rows:
        found[row.vm_id].append(row)
    return found


def offering_host_tags(connection: Connection, offering_id: int) -> frozenset[str]:
    """Return the host tags of a service offering."""
    query = text("SELECT host_tags FROM service_offerings WHERE id = :offering")
    return frozenset(connection.execute(query, {"offering": offering_id}).scalar_one())


def read_vm_groups(connection: Connection, vm_ids: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return the ids of each VM's affinity groups, ascending."""
    found: dict[int, tuple[int, ...]] = dict.fromkeys(vm_ids, ())
    rows = connection.execute(
        text(
            "SELECT vm_id, affinity_group_id FROM vm_affinity_groups WHERE vm_id = ANY(CAST(:vms AS bigint[]))"
            " ORDER BY affinity_group_id"
        ),
        {"vms": int_array(vm_ids)},
    )
    for row in rows:
        found[row.vm_id] += (row.affinity_group_id,)
    return found


def lock_affinity_groups(connection: Connection, group_ids: Sequence[int]) -> dict[int, AffinityType]:
    """Lock affinity groups, and return their types by group id.

    The lock ensures that only one planner at a time counts the members of a group.

    Raises:
        TransactionConflict: a group was deleted since the caller read it.
    """
    kinds = _affinity_types(connection, _TYPES + " ORDER BY id FOR UPDATE", group_ids)
    if len(kinds) != len(set(group_ids)):
        raise TransactionConflict
    return kinds


def read_affinity_groups(connection: Connection, group_ids: Sequence[int]) -> dict[int, AffinityType]:
    """Return the types of these affinity groups by group id, without locks. Deleted groups are omitted."""
    return _affinity_types(connection, _TYPES, group_ids)


_TYPES = "SELECT id, affinity_type FROM affinity_groups WHERE id = ANY(:ids) AND removed IS NULL"


def _affinity_types(connection: Connection, query: str, group_ids: Sequence[int]) -> dict[int, AffinityType]:
    rows = connection.execute(text(query), {"ids": list(group_ids)})
    return {row.id: AffinityType(row.affinity_type) for row in rows}


_MEMBERS = (
    "SELECT g.affinity_group_id, v.id, coalesce(v.host_id, v.last_host_id) AS host_id"
    " FROM vm_affinity_groups g JOIN virtual_machines v ON v.id = g.vm_id"
    " WHERE $members AND v.removed IS NULL AND (v.host_id IS NOT NULL OR ("
    "   v.state = 'Stopped' AND v.last_host_id IS NOT NULL"
    "   AND v.updated > now() - make_interval(secs => :seconds)))"
    " UNION ALL SELECT g.affinity_group_id, g.vm_id, x.host_id FROM host_claims x"
    " JOIN async_jobs j ON j.uuid = x.consumer JOIN vm_affinity_groups g ON g.vm_id = j.instance_id"
    " WHERE x.consumer_kind <> 0 AND $members"
)
"""Each member of a group on each host that it counts on.

A VM stopped less than ``seconds`` seconds ago counts on its last host, one that migrates, or is about to, on both.
"""

_COUNT_MEMBERS = text(
    f"SELECT affinity_group_id, host_id, count(*) AS vms FROM"  # noqa: S608 - a constant
    f" ({_MEMBERS.replace('$members', 'g.affinity_group_id = ANY(:ids)')}) members"
    " WHERE id IS DISTINCT FROM :without GROUP BY 1, 2"
)

_MEMBERSHIPS = text(_MEMBERS.replace("$members", "g.vm_id = ANY(CAST(:vms AS bigint[]))"))


def count_members_by_host(
    connection: Connection, group_ids: Sequence[int], *, stopped_counts_s: int, without_vm_id: int | None = None
) -> dict[int, dict[int, int]]:
    """Count each group's VMs on each host, without the VM ``without_vm_id``. The keys are group id, then host id.

    ``stopped_counts_s`` is the number of seconds for which a stopped VM still counts on its last host.
    """
    wanted = {"ids": list(group_ids), "seconds": stopped_counts_s, "without": without_vm_id}
    members: dict[int, dict[int, int]] = {group_id: {} for group_id in group_ids}
    for row in connection.execute(_COUNT_MEMBERS, wanted):
        members[row.affinity_group_id][row.host_id] = row.vms
    return members


def read_memberships(
    connection: Connection, vm_ids: Collection[int], *, stopped_counts_s: int
) -> dict[int, list[tuple[int, int]]]:
    """Return, for each VM, the pairs of group and host in which ``count_members_by_host`` counts the VM."""
    found: dict[int, list[tuple[int, int]]] = {vm_id: [] for vm_id in vm_ids}
    wanted = {"vms": int_array(vm_ids), "seconds": stopped_counts_s}
    for row in connection.execute(_MEMBERSHIPS, wanted):
        found[row.id].append((row.affinity_group_id, row.host_id))
    return found


_WRITE_PLACES = text(
    "UPDATE virtual_machines v SET host_id = w.host, cluster_id = w.cluster, pod_id = w.pod, updated = now()"
    " FROM unnest(CAST(:vms AS bigint[]), CAST(:hosts AS bigint[]), CAST(:clusters AS bigint[]),"
    "   CAST(:pods AS bigint[])) AS w(id, host, cluster, pod) WHERE v.id = w.id"
)


def write_places(
    connection: Connection,
    vm_ids: Sequence[int],
    *,
    host_ids: Sequence[int],
    cluster_ids: Sequence[int],
    pod_ids: Sequence[int],
) -> None:
    """Write the claimed host, cluster and pod into the rows of VMs. Entry i of each list belongs to VM i."""
    connection.execute(
        _WRITE_PLACES,
        {
            "vms": int_array(vm_ids),
            "hosts": int_array(host_ids),
            "clusters": int_array(cluster_ids),
            "pods": int_array(pod_ids),
        },
    )


def write_pools(connection: Connection, volume_uuids: Sequence[UUID], pool_ids: Sequence[int]) -> None:
    """Write the claimed pool into the row of each volume. Entry i of both lists belongs to volume i."""
    connection.execute(
        text(
            "UPDATE volumes v SET pool_id = w.pool_id FROM (SELECT unnest(CAST(:uuids AS uuid[])) AS uuid,"
            " unnest(CAST(:pools AS bigint[])) AS pool_id) w WHERE v.uuid = w.uuid"
        ),
        {"uuids": list(volume_uuids), "pools": list(pool_ids)},
    )


def forget_pools(connection: Connection, vm_id: int) -> list[UUID]:
    """Remove the VM's volumes from their pools, and return their uuids. The VM's row remains locked."""
    connection.execute(text("SELECT FROM virtual_machines WHERE id = :vm FOR UPDATE"), {"vm": vm_id})
    return list(
        connection.execute(
            text("UPDATE volumes SET pool_id = NULL WHERE vm_id = :vm AND removed IS NULL RETURNING uuid"),
            {"vm": vm_id},
        ).scalars()
    )


def pods_bound_by_address(connection: Connection, vm_ids: Collection[int]) -> dict[int, int]:
    """Return the pod to which the address of each VM belongs (Basic zones), by VM id.

    VMs whose addresses do not belong to a pod are omitted.
    """
    rows = connection.execute(
        text(
            "SELECT n.vm_id, min(r.pod_id) AS pod_id FROM nics n JOIN ip_ranges r ON r.id = n.ip_range_id"
            " WHERE n.vm_id = ANY(CAST(:vms AS bigint[])) AND n.removed IS NULL AND r.pod_id IS NOT NULL GROUP BY 1"
        ),
        {"vms": int_array(vm_ids)},
    )
    return {row.vm_id: row.pod_id for row in rows}


def count_alike_vms_on_hosts(connection: Connection, zone_id: int) -> list[Row[Any]]:
    """Count the VMs with a claim on each host of a zone, grouped by equal properties.

    These are the sizes, the speed, the hypervisor, the host tags of the offering and the tag of the template.
    """
    return list(
        connection.execute(
            text(
                "SELECT x.host_id, v.cpu_number, v.cpu_mhz, v.memory_mib, v.hypervisor, o.host_tags,"
                " t.template_tag, count(*) AS vms FROM host_claims x"
                " JOIN hosts h ON h.id = x.host_id AND h.zone_id = :zone"
                " JOIN virtual_machines v ON v.uuid = x.consumer"
                " JOIN service_offerings o ON o.id = v.service_offering_id"
                " JOIN templates t ON t.id = v.template_id"
                " WHERE x.consumer_kind = 0 GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7"
            ),
            {"zone": zone_id},
        )
    )

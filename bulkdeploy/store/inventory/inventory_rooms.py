"""What is left on the hosts and in the pools of a zone, for VMs that an inventory says run already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.inventory_owners import Where
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.store.configuration.configuration import Configuration
from bulkdeploy.store.inventory.inventory_staging import InventoryConflict


@dataclass(slots=True)
class HostRoom:
    """What is left on one host (MHz, MiB, VMs), and its cores; ``usable``: VMs may be put there unasked."""

    id: int
    cluster_id: int
    cpu_mhz: int
    memory_mib: int
    vms: int
    cores: int
    core_mhz: int
    usable: bool
    tags: frozenset[str]


@dataclass(slots=True)
class PoolRoom:
    """What is left in one pool (bytes), and what reaches it; a cluster or host of None: all of them."""

    id: int
    cluster_id: int | None
    host_id: int | None
    free_bytes: int
    hypervisor: str | None
    tags: frozenset[str]


def host_rooms(connection: Connection, zone_id: int) -> dict[int, HostRoom]:
    """Room of every host of the zone by id; the capacity rows stay locked, in the order of ids."""
    rows = connection.execute(
        text(
            "SELECT h.id, h.cluster_id, h.cpu_cores, h.cpu_mhz AS core_mhz, h.tags,"
            " c.cpu_mhz_limit - c.cpu_mhz_used AS cpu_mhz,"
            " c.memory_mib_limit - c.memory_mib_used AS memory_mib, c.vms_limit - c.vms_used AS vms,"
            " h.state = 'Up' AND h.resource_state = 'Enabled' AS usable"
            " FROM host_capacity c JOIN hosts h ON h.id = c.host_id"
            " WHERE h.zone_id = :zone AND h.removed IS NULL ORDER BY c.host_id FOR UPDATE OF c"
        ),
        {"zone": zone_id},
    )
    return {
        row.id: HostRoom(
            id=row.id,
            cluster_id=row.cluster_id,
            cpu_mhz=row.cpu_mhz,
            memory_mib=row.memory_mib,
            vms=row.vms,
            cores=row.cpu_cores,
            core_mhz=row.core_mhz,
            usable=row.usable,
            tags=frozenset(row.tags),
        )
        for row in rows
    }


def pool_rooms(connection: Connection, zone_id: int, configuration: Configuration) -> list[PoolRoom]:
    """Room of every pool of the zone that is Up, by id; the rows stay locked.

    Shared pools hold their size times ``storage.overprovisioning.factor``, local ones their size. The
    disable threshold keeps new VMs out and does not bind what runs already.
    """
    rows = connection.execute(
        text(
            "SELECT id, cluster_id, host_id, scope, capacity_bytes, allocated_bytes, hypervisor, tags"
            " FROM storage_pools WHERE zone_id = :zone AND removed IS NULL AND state = 'Up'"
            " ORDER BY id FOR UPDATE"
        ),
        {"zone": zone_id},
    )
    setting = "storage.overprovisioning.factor"
    return [
        PoolRoom(
            row.id,
            row.cluster_id,
            row.host_id,
            int(
                row.capacity_bytes
                * (1 if row.scope == "HOST" else configuration.decimal(setting, Scope.STORAGE_POOL, row.id))
            )
            - row.allocated_bytes,
            row.hypervisor,
            frozenset(row.tags),
        )
        for row in rows
    ]


def strict_anti_affinity_hosts(connection: Connection, group_ids: Sequence[int]) -> dict[int, set[int]]:
    """Of these affinity groups the strict host anti-affinity ones, each with the hosts that hold a member."""
    rows = connection.execute(
        text(
            "SELECT g.id, array_remove(array_agg(v.host_id), NULL) AS hosts FROM affinity_groups g"
            " LEFT JOIN vm_affinity_groups m ON m.affinity_group_id = g.id"
            " LEFT JOIN virtual_machines v ON v.id = m.vm_id AND v.removed IS NULL"
            " WHERE g.id = ANY(:groups) AND g.affinity_type = :kind GROUP BY g.id"
        ),
        {"groups": list(group_ids), "kind": AffinityType.HOST_ANTI_AFFINITY.value},
    )
    return {row.id: set(row.hosts) for row in rows}


def refuse_overfull_hosts(connection: Connection, described: Mapping[int, Where]) -> None:
    """Refuse capacities below what the host's VMs have claimed already.

    Raises:
        InventoryConflict: at the first such host.
    """
    row = connection.execute(
        text(
            "SELECT h.id, h.name, c.* FROM host_capacity c JOIN hosts h ON h.id = c.host_id"
            " WHERE h.id = ANY(:hosts) AND (c.cpu_mhz_used > c.cpu_mhz_limit"
            " OR c.memory_mib_used > c.memory_mib_limit OR c.vms_used > c.vms_limit) ORDER BY h.id LIMIT 1"
        ),
        {"hosts": list(described)},
    ).first()
    if row is not None:
        rule = (
            f"host {row.name} would hold {row.cpu_mhz_limit} MHz, {row.memory_mib_limit} MiB and {row.vms_limit}"
            f" VMs; its VMs have {row.cpu_mhz_used} MHz, {row.memory_mib_used} MiB and are {row.vms_used}"
        )
        raise InventoryConflict(described[row.id], rule)

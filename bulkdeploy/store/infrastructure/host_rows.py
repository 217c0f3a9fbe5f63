"""The rows of new hosts: the host, its capacity in the ledger, and the pool of its own disks."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select, text, update

from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.hypervisors.image_sizes import forget_copies
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.availability import bmcs, host_ha, host_ha_transitions
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, storage_pools


def insert_capacity(connection: Connection, vms_limits: Mapping[int, int]) -> None:
    """Insert the limits of new hosts: their hardware times the over-commit of their cluster, rounded down.

    ``vms_limits`` has the maximum number of VMs by the host's internal id.
    """
    connection.execute(
        text(
            "INSERT INTO host_capacity (host_id, cpu_mhz_limit, memory_mib_limit, vms_limit)"
            " SELECT h.id, floor(h.cpu_cores::bigint * h.cpu_mhz * k.cpu_overcommit),"
            " floor(h.memory_mib * k.memory_overcommit), given.vms"
            " FROM unnest(CAST(:hosts AS bigint[]), CAST(:limits AS int[])) AS given (host_id, vms)"
            " JOIN hosts h ON h.id = given.host_id JOIN clusters k ON k.id = h.cluster_id"
        ),
        {"hosts": list(vms_limits), "limits": list(vms_limits.values())},
    )


def refresh_limits(connection: Connection, host_ids: Sequence[int]) -> None:
    """Recalculate the capacity limits of hosts from their hardware. Existing claims are kept."""
    connection.execute(
        text(
            "UPDATE host_capacity c SET cpu_mhz_limit = floor(h.cpu_cores::bigint * h.cpu_mhz * k.cpu_overcommit),"
            " memory_mib_limit = floor(h.memory_mib * k.memory_overcommit)"
            " FROM hosts h JOIN clusters k ON k.id = h.cluster_id WHERE c.host_id = h.id AND h.id = ANY(:hosts)"
        ),
        {"hosts": list(host_ids)},
    )


def set_memory(connection: Connection, memory_mib: Mapping[int, int]) -> None:
    """Write the memory of hosts that is available for our guests, in MiB by internal id, and update their limits.

    Existing claims are kept.
    """
    ordered = sorted(memory_mib)
    given = {"hosts": int_array(ordered), "memory": int_array([memory_mib[host] for host in ordered])}
    connection.execute(_LOCK_CLAIMS[0], {"hosts": given["hosts"]})
    connection.execute(_SET_MEMORY, given)
    refresh_limits(connection, ordered)


_SET_MEMORY = text(
    "UPDATE hosts h SET memory_mib = given.mib"
    " FROM unnest(CAST(:hosts AS bigint[]), CAST(:memory AS bigint[])) AS given (id, mib)"
    " WHERE h.id = given.id AND h.removed IS NULL"
)


def reaching_facts(connection: Connection, host_id: int) -> Mapping[str, Any] | None:
    """Return a live host's URL, hypervisor, cluster, over-commit ratios and VM limit, and when it was fenced.

    Returns None if the host was removed.
    """
    query = (
        select(
            hosts.c.fenced,
            hosts.c.url,
            hosts.c.hypervisor,
            hosts.c.cluster_id,
            clusters.c.cpu_overcommit,
            clusters.c.memory_overcommit,
            host_capacity.c.vms_limit,
        )
        .join(clusters, clusters.c.id == hosts.c.cluster_id)
        .join(host_capacity, host_capacity.c.host_id == hosts.c.id)
        .where(hosts.c.id == host_id, hosts.c.removed.is_(None))
    )
    row = connection.execute(query).mappings().first()
    return None if row is None else dict(row)


def guest_hardware(
    connection: Connection, cluster_ids: Sequence[int], *, without: int | None = None
) -> dict[int, frozenset[str]]:
    """Return the distinct descriptions of guest hardware that the live hosts of clusters reported, by cluster id.

    The host ``without`` is ignored. Clusters in which no host reported a description are omitted.
    """
    query = (
        select(hosts.c.cluster_id, func.array_agg(hosts.c.guest_hardware.distinct()).label("hardware"))
        .where(
            id_in(hosts.c.cluster_id, cluster_ids),
            hosts.c.removed.is_(None),
            hosts.c.guest_hardware.is_not(None),
            hosts.c.id.is_distinct_from(without),
        )
        .group_by(hosts.c.cluster_id)
    )
    return {row.cluster_id: frozenset(row.hardware) for row in connection.execute(query)}


def lock_claims(connection: Connection, host_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Count the VMs with a claim on these hosts and the volumes on the hosts' local disks.

    No new claim is possible until the transaction ends. Hosts without claims are omitted. The locks are those of
    every claim: the hosts' capacity rows, then their pools.
    """
    given = {"hosts": int_array(host_ids)}
    for lock in _LOCK_CLAIMS:
        connection.execute(lock, given)
    return {row.host_id: (row.vms, row.volumes) for row in connection.execute(_CLAIMS, given)}


_LOCK_CLAIMS = (
    text("SELECT FROM host_capacity WHERE host_id = ANY(CAST(:hosts AS bigint[])) ORDER BY host_id FOR UPDATE"),
    text(
        "SELECT FROM storage_pools WHERE host_id = ANY(CAST(:hosts AS bigint[])) AND removed IS NULL"
        " ORDER BY id FOR UPDATE"
    ),
)
_CLAIMS = text(
    "SELECT host_id, sum(vms) AS vms, sum(volumes) AS volumes FROM ("
    " SELECT host_id, 1 AS vms, 0 AS volumes FROM host_claims WHERE host_id = ANY(CAST(:hosts AS bigint[]))"
    " UNION ALL SELECT p.host_id, 0, 1 FROM storage_claims c JOIN storage_pools p ON p.id = c.pool_id"
    " WHERE p.host_id = ANY(CAST(:hosts AS bigint[])) AND p.removed IS NULL"
    " AND c.consumer NOT IN (SELECT uuid FROM template_copies)) AS claims GROUP BY host_id"
)


def remove_with_pools(connection: Connection, host_ids: Sequence[int]) -> None:
    """Mark hosts and the pools of their local disks as removed.

    The hosts' management controllers and HA configurations are deleted. Their capacity rows remain; plans ignore
    them.
    """
    connection.execute(
        update(hosts).where(id_in(hosts.c.id, host_ids)).values(removed=func.now(), state=HostState.REMOVED.value)
    )
    for table in (bmcs, host_ha, host_ha_transitions):
        connection.execute(delete(table).where(id_in(table.c.host_id, host_ids)))
    of_hosts = select(storage_pools.c.id).where(
        id_in(storage_pools.c.host_id, host_ids), storage_pools.c.removed.is_(None)
    )
    forget_copies(connection, list(connection.execute(of_hosts).scalars()))
    connection.execute(
        update(storage_pools)
        .where(id_in(storage_pools.c.host_id, host_ids), storage_pools.c.removed.is_(None))
        .values(removed=func.now())
    )

"""Writing hosts with what hangs on them: their capacity in the ledger and the pools of their own disks."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, text, update

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.topology import HostState
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, storage_pools


def insert_capacity(connection: Connection, vms_limits: Mapping[int, int]) -> None:
    """What new hosts may promise: their hardware times their cluster's over-commit, rounded down.

    ``vms_limits``: VMs at most by the host's internal id.
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
    """Let what hosts may promise follow their hardware; what is claimed stays claimed."""
    connection.execute(
        text(
            "UPDATE host_capacity c SET cpu_mhz_limit = floor(h.cpu_cores::bigint * h.cpu_mhz * k.cpu_overcommit),"
            " memory_mib_limit = floor(h.memory_mib * k.memory_overcommit)"
            " FROM hosts h JOIN clusters k ON k.id = h.cluster_id WHERE c.host_id = h.id AND h.id = ANY(:hosts)"
        ),
        {"hosts": list(host_ids)},
    )


def reaching_facts(connection: Connection, host_id: int) -> Mapping[str, Any] | None:
    """How a live host is reached, and what it may promise of itself."""
    query = (
        select(
            hosts.c.url,
            hosts.c.hypervisor,
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


def lock_claims(connection: Connection, host_id: int) -> tuple[int, int]:
    """How many VMs hold a claim on a host, and volumes on its own disks; no new one comes before the commit.

    The locks are those of every claim: the host's capacity, then its pools.
    """
    connection.execute(text("SELECT FROM host_capacity WHERE host_id = :host FOR UPDATE"), {"host": host_id})
    connection.execute(
        text("SELECT FROM storage_pools WHERE host_id = :host AND removed IS NULL ORDER BY id FOR UPDATE"),
        {"host": host_id},
    )
    row = connection.execute(
        text(
            "SELECT (SELECT count(*) FROM host_claims WHERE host_id = :host) AS vms,"
            " (SELECT count(*) FROM storage_claims c JOIN storage_pools p ON p.id = c.pool_id"
            "  WHERE p.host_id = :host AND p.removed IS NULL) AS volumes"
        ),
        {"host": host_id},
    ).one()
    return row.vms, row.volumes


def remove_with_pools(connection: Connection, host: EntityRef) -> None:
    """Mark a host and the pools of its disks as deleted. Its capacity stays as a row: plans skip it."""
    connection.execute(
        update(hosts).where(hosts.c.id == host.id).values(removed=func.now(), state=HostState.REMOVED.value)
    )
    connection.execute(
        update(storage_pools)
        .where(storage_pools.c.host_id == host.id, storage_pools.c.removed.is_(None))
        .values(removed=func.now())
    )

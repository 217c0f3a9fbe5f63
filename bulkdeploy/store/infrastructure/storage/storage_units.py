"""The hosts and pools whose storage units are listed, and the users of a pool."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

_HOSTS = (
    "SELECT h.id, h.uuid, h.name, h.ip_address, h.hypervisor, h.url, c.id AS cluster_id, c.uuid AS cluster_uuid,"
    " c.name AS cluster_name FROM hosts h JOIN clusters c ON c.id = h.cluster_id WHERE h.removed IS NULL"
)


def hosts(
    connection: Connection, *, host_ids: Collection[int] | None = None, cluster_id: int | None = None
) -> Sequence[Row[Any]]:
    """Return all hosts, some hosts or the hosts of a cluster, ordered by name, with their cluster.

    The columns include the address by which drivers identify a host.
    """
    query = text(
        f"{_HOSTS} AND (CAST(:hosts AS bigint[]) IS NULL OR h.id = ANY(:hosts))"
        " AND (CAST(:cluster AS bigint) IS NULL OR c.id = :cluster) ORDER BY h.name, h.id"
    )
    given = None if host_ids is None else list(host_ids)
    return connection.execute(query, {"hosts": given, "cluster": cluster_id}).all()


def hosts_of_pool(connection: Connection, pool_id: int) -> Sequence[Row[Any]]:
    """Return the hosts that can use a pool, with the columns of ``hosts``."""
    query = text(
        f"{_HOSTS} AND EXISTS (SELECT FROM storage_pools p WHERE p.id = :pool AND (p.host_id = h.id"
        " OR (p.scope = 'CLUSTER' AND p.cluster_id = h.cluster_id)"
        " OR (p.scope = 'ZONE' AND p.zone_id = h.zone_id AND lower(p.hypervisor) = lower(h.hypervisor))))"
        " ORDER BY h.name, h.id"
    )
    return connection.execute(query, {"pool": pool_id}).all()


def pools(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, Row[Any]]:
    """Return these pools by uuid: id, name, state, scope."""
    query = text(
        "SELECT id, uuid, name, state, scope FROM storage_pools WHERE uuid = ANY(:uuids) AND removed IS NULL"
    )
    return {row.uuid: row for row in connection.execute(query, {"uuids": list(uuids)})}


def users_of_pool(connection: Connection, pool_id: int) -> Sequence[str]:
    """Return the names of the VMs that use or will use volumes in a pool, and of its volumes without a VM."""
    query = text(
        "SELECT DISTINCT coalesce(vm.name, v.name) AS name, coalesce(vm.uuid, v.uuid) AS uuid"
        " FROM volumes v LEFT JOIN virtual_machines vm ON vm.id = v.vm_id"
        " WHERE v.pool_id = :pool AND (v.removed IS NULL OR v.state = 'Destroy') ORDER BY name, uuid"
    )
    return connection.execute(query, {"pool": pool_id}).scalars().all()

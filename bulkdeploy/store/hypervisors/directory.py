"""Hosts, pools and templates as drivers need them, read completely because there are few."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

_HOSTS = text(
    "SELECT h.uuid, h.name, h.ip_address, h.hypervisor, h.url FROM hosts h WHERE h.removed IS NULL ORDER BY h.id"
)

_CLOSED_HOSTS = text(
    "SELECT h.uuid, h.name, h.ip_address, h.hypervisor, h.url FROM hosts h WHERE h.removed IS NULL"
    " AND (h.state <> 'Up' OR h.resource_state <> 'Enabled') ORDER BY h.id"
)


def closed_hosts(connection: Connection) -> Sequence[Row[Any]]:
    """Return the hosts that are not Up or not Enabled, with the columns of the function ``hosts``."""
    return connection.execute(_CLOSED_HOSTS).all()


_HOSTS_OF_POOL = text(
    "SELECT h.uuid, h.name, h.ip_address, h.hypervisor, h.url FROM storage_pools p JOIN hosts h"
    " ON p.host_id = h.id OR (p.scope = 'CLUSTER' AND p.cluster_id = h.cluster_id)"
    " OR (p.scope = 'ZONE' AND p.zone_id = h.zone_id AND lower(p.hypervisor) = lower(h.hypervisor))"
    " WHERE p.uuid = :pool AND h.removed IS NULL ORDER BY h.id"
)


def hosts(connection: Connection, pool_uuid: UUID | None = None) -> Sequence[Row[Any]]:
    """Return all hosts, or the hosts that can use a pool, with uuid, name, ip_address, hypervisor and url."""
    if pool_uuid is None:
        return connection.execute(_HOSTS).all()
    return connection.execute(_HOSTS_OF_POOL, {"pool": pool_uuid}).all()


_POOLS = text(
    "SELECT p.uuid, p.name, p.pool_type, p.ip_address, p.path, p.user_name, p.secret_encrypted, p.capacity_bytes,"
    " h.uuid AS host_uuid,"
    " coalesce(h.hypervisor, c.hypervisor, p.hypervisor) AS hypervisor FROM storage_pools p"
    " LEFT JOIN hosts h ON h.id = p.host_id LEFT JOIN clusters c ON c.id = p.cluster_id"
    " WHERE p.removed IS NULL ORDER BY p.id"
)

_POOLS_OF_HOST = text(
    "SELECT p.uuid, p.name, p.pool_type, p.ip_address, p.path, p.user_name, p.secret_encrypted, p.capacity_bytes,"
    " CASE WHEN p.host_id IS NOT NULL THEN h.uuid END AS host_uuid, h.hypervisor"
    " FROM hosts h JOIN storage_pools p"
    " ON p.host_id = h.id OR (p.scope = 'CLUSTER' AND p.cluster_id = h.cluster_id)"
    " OR (p.scope = 'ZONE' AND p.zone_id = h.zone_id AND lower(p.hypervisor) = lower(h.hypervisor))"
    " WHERE h.uuid = :host AND p.removed IS NULL ORDER BY p.id"
)


_POOLS_OF_VOLUMES = text(
    "SELECT DISTINCT p.uuid, p.name, p.pool_type, p.ip_address, p.path, p.user_name, p.secret_encrypted,"
    " p.capacity_bytes, h.uuid AS host_uuid,"
    " coalesce(h.hypervisor, c.hypervisor, p.hypervisor) AS hypervisor FROM volumes v"
    " JOIN storage_pools p ON p.id = v.pool_id LEFT JOIN hosts h ON h.id = p.host_id"
    " LEFT JOIN clusters c ON c.id = p.cluster_id WHERE v.uuid = ANY(CAST(:volumes AS uuid[]))"
)


def pools_of_volumes(connection: Connection, volume_uuids: Collection[UUID]) -> Sequence[Row[Any]]:
    """Return the pools of these volumes, with the columns of the function ``pools``."""
    return connection.execute(_POOLS_OF_VOLUMES, {"volumes": list(volume_uuids)}).all()


def pools(connection: Connection, host_uuid: UUID | None = None) -> Sequence[Row[Any]]:
    """Return all pools, or the pools that a host can use.

    The columns are uuid, name, pool_type, ip_address, path, user_name, secret_encrypted, capacity_bytes, host_uuid
    and hypervisor.
    """
    if host_uuid is None:
        return connection.execute(_POOLS).all()
    return connection.execute(_POOLS_OF_HOST, {"host": host_uuid}).all()


_HARDWARE_OF_CLUSTER = text(
    "SELECT DISTINCT o.guest_hardware FROM hosts h JOIN hosts o ON o.cluster_id = h.cluster_id"
    " WHERE h.uuid = :host AND o.removed IS NULL"
)


def hardware_of_cluster(connection: Connection, host_uuid: UUID) -> frozenset[str | None]:
    """Return the distinct descriptions of guest hardware that the hosts in the cluster of this host reported.

    A host that reported none adds None.
    """
    return frozenset(connection.execute(_HARDWARE_OF_CLUSTER, {"host": host_uuid}).scalars())


_TEMPLATE = text(
    "SELECT t.uuid, t.name, t.url, t.format, t.checksum, t.size_bytes, a.account_type FROM templates t"
    " JOIN accounts a ON a.id = t.account_id WHERE t.uuid = :template"
)


def template(connection: Connection, template_uuid: UUID) -> Row[Any] | None:
    """Return a template together with the type of its owner's account, or None.

    Deleted templates are included, because VMs that were created from them still use them. The columns are uuid,
    name, url, format, checksum, size_bytes and account_type.
    """
    return connection.execute(_TEMPLATE, {"template": template_uuid}).first()


_CALLER = text(
    "SELECT a.uuid, a.name, a.account_type, r.uuid AS role_uuid, r.name AS role_name, r.role_type"
    " FROM users u JOIN accounts a ON a.id = u.account_id JOIN roles r ON r.id = a.role_id WHERE u.id = :user"
)


def caller(connection: Connection, user_id: int) -> Row[Any] | None:
    """Return the account of a user and the account's role, or None if there is no such user."""
    return connection.execute(_CALLER, {"user": user_id}).first()

"""The list query of primary storage pools, and the volumes on a pool."""

from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, and_, exists, func, or_, select

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.storage_urls import POOL_TYPES
from bulkdeploy.domain.infrastructure.topology import PoolScope
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Condition, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields, reader
from bulkdeploy.store.tables.hypervisors import template_copies
from bulkdeploy.store.tables.ledger import storage_claims
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones
from bulkdeploy.store.tables.usage import pool_usage
from bulkdeploy.store.tables.virtual_machines import virtual_machines, volumes

UP, DISABLED = "Up", "Disabled"
SCHEMES = {kind: scheme for scheme, kind in POOL_TYPES.items()}
"""The scheme of a pool's URL, by its type."""

FACTOR = "storage.overprovisioning.factor"


def _reached_by(host: EntityRef) -> Condition:
    """Return the condition for pools that a host can reach.

    These are the host's local disks, the pools of its cluster, and those zone-wide pools that its hypervisor
    supports.
    """
    pool, one = storage_pools.c, hosts.c
    reached = or_(
        pool.host_id == one.id,
        and_(pool.scope == PoolScope.CLUSTER.value, pool.cluster_id == one.cluster_id),
        and_(
            pool.scope == PoolScope.ZONE.value,
            pool.zone_id == one.zone_id,
            or_(pool.hypervisor.is_(None), pool.hypervisor == one.hypervisor),
        ),
    )
    return exists(select(1).where(one.id == host.id, reached))


FIELDS: Fields = {
    "zoneid": storage_pools.c.zone_id,
    "podid": storage_pools.c.pod_id,
    "clusterid": storage_pools.c.cluster_id,
    "name": storage_pools.c.name,
    "scope": storage_pools.c.scope,
    "hypervisor": storage_pools.c.hypervisor,
    "capacitybytes": storage_pools.c.capacity_bytes,
    "tags": func.array_to_string(storage_pools.c.tags, ","),
    "type": storage_pools.c.pool_type,
    "server": storage_pools.c.ip_address,
    "path": storage_pools.c.path,
    "state": storage_pools.c.state,
}

_read_all = reader(Entity.STORAGE_POOL, FIELDS)


def read_storage_pools(connection: Connection) -> list[dict[str, Any]]:
    """Return all pools except hosts' local disks in the format of zone files.

    Local disks are part of the hosts. URLs contain no credentials, so they must be added to the URL of a Ceph pool
    before the pool is created from a zone file. For a pool in maintenance, the field about its enabled state is
    omitted.
    """
    return [_as_written(row) for row in _read_all(connection) if row["scope"] != PoolScope.HOST]


def _as_written(row: dict[str, Any]) -> dict[str, Any]:
    scheme, server, path, state = SCHEMES[row.pop("type")], row.pop("server"), row.pop("path"), row.pop("state")
    row["url"] = f"{scheme}://{server}{quote(path or '/')}"
    if state in (UP, DISABLED):
        row["enabled"] = state == UP
    return row


LEARNT: Fields = {
    "name": storage_pools.c.name,
    "state": storage_pools.c.state,
    "capacitybytes": storage_pools.c.capacity_bytes,
    "pooltype": storage_pools.c.pool_type,
    "server": storage_pools.c.ip_address,
    "path": storage_pools.c.path,
}
"""What another cloud says of its pools and may say otherwise tomorrow, besides their tags."""

LEARNT_PLACE: Fields = {
    **{name: FIELDS[name] for name in ("zoneid", "podid", "clusterid", "scope", "hypervisor")},
    "hostid": storage_pools.c.host_id,
}

read_learnt_pools = reader(Entity.STORAGE_POOL, {**LEARNT_PLACE, **LEARNT, "tags": FIELDS["tags"]})
"""All pools, those of hosts' own disks too, with what another cloud says of them."""

FILTERS: Filters = {
    "id": by_id(storage_pools.c.id),
    "name": same_text(storage_pools.c.name),
    "keyword": keyword(storage_pools.c.name, storage_pools.c.pool_type),
    "zoneid": by_id(storage_pools.c.zone_id),
    "podid": by_id(storage_pools.c.pod_id),
    "clusterid": by_id(storage_pools.c.cluster_id),
    "ipaddress": same_text(storage_pools.c.ip_address),
    "path": lambda value: storage_pools.c.path == value,
    "scope": same_text(storage_pools.c.scope),
    "status": same_text(storage_pools.c.state),
    "hostid": _reached_by,
}


def storage_in_use(connection: Connection, zone_ids: Iterable[int]) -> dict[tuple[int, str, str], str]:
    """Return the names of the live storage pools of zones, by zone id, server address and path."""
    pool = storage_pools.c
    rows = connection.execute(
        select(pool.zone_id, pool.ip_address, pool.path, pool.name).where(
            id_in(pool.zone_id, zone_ids), pool.removed.is_(None)
        )
    )
    return {(row.zone_id, row.ip_address, row.path): row.name for row in rows}


def count_volumes(connection: Connection, pool_ids: Collection[int]) -> dict[int, int]:
    """Return the number of volumes that claim space in each pool, by pool id. Pools without volumes are omitted.

    Copies of templates are not counted. While the caller has locked a pool's row, no new claim is possible.
    """
    claim = storage_claims.c
    query = select(claim.pool_id, func.count()).where(
        id_in(claim.pool_id, pool_ids), claim.consumer.not_in(select(template_copies.c.uuid))
    )
    query = query.group_by(claim.pool_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def count_vms_on_hosts(connection: Connection, pool_id: int) -> int:
    """Return the number of VMs that have volumes in a pool and are on a host or about to start on one."""
    query = (
        select(func.count(virtual_machines.c.id.distinct()))
        .join(volumes, volumes.c.vm_id == virtual_machines.c.id)
        .where(volumes.c.pool_id == pool_id, volumes.c.removed.is_(None), virtual_machines.c.host_id.is_not(None))
    )
    return connection.execute(query).scalar_one()


def list_storage_pools(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of pools, ordered by id."""
    pool = storage_pools.c
    query = (
        select(
            pool.id.label("_id"),
            pool.uuid.label("id"),
            pool.name,
            pool.pool_type.label("type"),
            pool.state,
            pool.scope,
            pool.hypervisor,
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            pods.c.uuid.label("podid"),
            pods.c.name.label("podname"),
            clusters.c.uuid.label("clusterid"),
            clusters.c.name.label("clustername"),
            pool.ip_address.label("ipaddress"),
            pool.path,
            pool.tags,
            func.coalesce(pool_usage.c.total_bytes, pool.capacity_bytes).label("disksizetotal"),
            pool.allocated_bytes.label("disksizeallocated"),
            pool_usage.c.used_bytes.label("disksizeused"),
            pool.capacity_bytes.label("capacitybytes"),
            pool.created,
            *annotation_columns(Entity.STORAGE_POOL),
        )
        .select_from(
            storage_pools.join(zones, zones.c.id == pool.zone_id)
            .outerjoin(pods, pods.c.id == pool.pod_id)
            .outerjoin(clusters, clusters.c.id == pool.cluster_id)
            .outerjoin(pool_usage, pool_usage.c.pool_id == pool.id)
        )
        .where(pool.removed.is_(None))
        .order_by(pool.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    configuration = read_configuration(connection)
    for row in rows:
        _finish(row, configuration)
    return Page(rows, count)


def _finish(row: dict[str, Any], configuration: Configuration) -> None:
    """Convert a row of the tables to the fields of API responses."""
    pool_id = row.pop("_id")
    local = row["scope"] == PoolScope.HOST
    factor = 1.0 if local else configuration.decimal(FACTOR, Scope.STORAGE_POOL, pool_id)
    row.update(
        overprovisionfactor=str(factor),
        provider="DefaultPrimary",
        managed=False,
        istagarule=False,
        tags=",".join(row["tags"]) or None,
    )

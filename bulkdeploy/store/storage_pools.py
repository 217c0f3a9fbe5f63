"""The list query of primary storage pools."""

from sqlalchemy import Connection, select

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.topology import PoolScope
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.topology import clusters, pods, storage_pools, zones

FACTOR = "storage.overprovisioning.factor"

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
}


def list_storage_pools(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """One page of pools by id."""
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
            pool.capacity_bytes.label("disksizetotal"),
            pool.allocated_bytes.label("disksizeallocated"),
            pool.created,
        )
        .select_from(
            storage_pools.join(zones, zones.c.id == pool.zone_id)
            .outerjoin(pods, pods.c.id == pool.pod_id)
            .outerjoin(clusters, clusters.c.id == pool.cluster_id)
        )
        .where(pool.removed.is_(None))
        .order_by(pool.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    configuration = read_configuration(connection)
    for row in rows:
        pool_id = row.pop("_id")
        local = row["scope"] == PoolScope.HOST
        factor = 1.0 if local else configuration.decimal(FACTOR, Scope.STORAGE_POOL, pool_id)
        row["overprovisionfactor"] = str(factor)
        row["tags"] = ",".join(row["tags"]) or None
    return Page(rows, count)

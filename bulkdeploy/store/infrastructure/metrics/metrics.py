"""The additional figures of lists with metrics: the numbers of objects in a zone or cluster, and its settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Column, ColumnElement, Connection, Table, Uuid, any_, bindparam, func, select

from bulkdeploy.domain.infrastructure.topology import AllocationState
from bulkdeploy.store.tables.image_stores import image_stores
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones

UP = "Up"


@dataclass(frozen=True, slots=True)
class HostFigures:
    """The number of VMs on a host according to the ledger, and its cluster, whose settings apply to the host."""

    vms: int
    cluster_id: int


@dataclass(frozen=True, slots=True)
class PlaceFigures:
    """The number of usable objects, and of all objects, in the zone or cluster with this internal id."""

    id: int
    of_use: int
    total: int


def host_figures(connection: Connection, uuids: Iterable[UUID]) -> Mapping[UUID, HostFigures]:
    """Return the number of VMs and the cluster of hosts, by the host's uuid."""
    query = (
        select(hosts.c.uuid, host_capacity.c.vms_used, hosts.c.cluster_id)
        .join(host_capacity, host_capacity.c.host_id == hosts.c.id)
        .where(_among(hosts, uuids))
    )
    return {uuid: HostFigures(vms, cluster_id) for uuid, vms, cluster_id in connection.execute(query)}


def cluster_figures(connection: Connection, uuids: Iterable[UUID]) -> Mapping[UUID, PlaceFigures]:
    """Return the number of hosts of clusters, and the number of these that are Up, by the cluster's uuid."""
    return _figures(connection, clusters, uuids, hosts.c.cluster_id, hosts.c.state == UP)


def zone_figures(connection: Connection, uuids: Iterable[UUID]) -> Mapping[UUID, PlaceFigures]:
    """Return the number of clusters of zones, and the number of these that are Enabled, by the zone's uuid."""
    enabled = clusters.c.allocation_state == AllocationState.ENABLED
    return _figures(connection, zones, uuids, clusters.c.zone_id, enabled)


def _figures(
    connection: Connection, place: Table, uuids: Iterable[UUID], inside: Column[Any], of_use: ColumnElement[bool]
) -> Mapping[UUID, PlaceFigures]:
    chosen = list(uuids)
    counted = (
        select(inside.label("place"), func.count().filter(of_use).label("of_use"), func.count().label("total"))
        .where(inside.table.c.removed.is_(None), inside.in_(select(place.c.id).where(_among(place, chosen))))
        .group_by(inside)
        .subquery()
    )
    query = (
        select(place.c.uuid, place.c.id, func.coalesce(counted.c.of_use, 0), func.coalesce(counted.c.total, 0))
        .outerjoin_from(place, counted, counted.c.place == place.c.id)
        .where(_among(place, chosen))
    )
    return {uuid: PlaceFigures(*figures) for uuid, *figures in connection.execute(query)}


def pool_ids(connection: Connection, uuids: Iterable[UUID]) -> Mapping[UUID, tuple[int, int | None]]:
    """Return the internal ids of storage pools and of their clusters, by the uuid of the pool."""
    pool = storage_pools.c
    query = select(pool.uuid, pool.id, pool.cluster_id).where(_among(storage_pools, uuids))
    return {row.uuid: (row.id, row.cluster_id) for row in connection.execute(query)}


def _among(table: Table, uuids: Iterable[UUID]) -> ColumnElement[bool]:
    """Return the condition that a row has one of these uuids, which are passed as one parameter."""
    return table.c.uuid == any_(bindparam(None, list(uuids), ARRAY(Uuid), unique=True))


COUNTED: Mapping[str, Table] = {
    "zones": zones,
    "pods": pods,
    "clusters": clusters,
    "hosts": hosts,
    "storagepools": storage_pools,
    "imagestores": image_stores,
}


def count_infrastructure(connection: Connection) -> dict[str, int]:
    """Count the objects of each infrastructure type, by the name of the type in ``listInfrastructure``."""
    counts = [
        select(func.count()).where(table.c.removed.is_(None)).scalar_subquery().label(name)
        for name, table in COUNTED.items()
    ]
    sockets = select(func.coalesce(func.sum(hosts.c.cpu_sockets), 0)).where(hosts.c.removed.is_(None))
    row = connection.execute(select(*counts, sockets.scalar_subquery().label("cpusockets"))).mappings().one()
    return {name: int(value) for name, value in row.items()}

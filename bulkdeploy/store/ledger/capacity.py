"""The total and used capacity of zones, pods and clusters, summed up by the database.

Hosts that the operator has disabled do not count, as in CloudStack. The used capacity consists of the claims in the
ledger, not of measurements.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from psycopg.errors import LockNotAvailable
from sqlalchemy import BigInteger, Column, Connection, Numeric, Select, and_, case, cast, func, select, text
from sqlalchemy.exc import DBAPIError

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.domain.infrastructure.capacity import CapacityLevel, CapacityType, percentage
from bulkdeploy.domain.infrastructure.topology import HostResourceState, PoolScope
from bulkdeploy.domain.units import MIB
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.listing import Page, Paging, cut_page
from bulkdeploy.store.tables.jobs import configuration_values
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.networks import ip_ranges, networks, released_addresses
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones
from bulkdeploy.store.tables.usage import pool_usage
from bulkdeploy.store.tables.virtual_machines import virtual_machines

Row = dict[str, Any]
Amounts = tuple[CapacityType, int, int]
"""A type with its total and what is used of it."""

FACTOR = "storage.overprovisioning.factor"
GLOBAL_ID = 0

_WAIT_BRIEFLY = text("SET LOCAL lock_timeout = '250ms'")


def read_capacity(connection: Connection, level: CapacityLevel, place_ids: Iterable[int]) -> dict[int, list[Row]]:
    """Return the capacity rows of each place (zone, pod or cluster, by internal id), ordered by type."""
    ids = list(place_ids)
    amounts: dict[int, list[Amounts]] = defaultdict(list)
    for place, *sums in connection.execute(_host_sums(level, ids)):
        memory, memory_used, cpu, cpu_used, cores = (int(value) for value in sums)
        amounts[place].append((CapacityType.MEMORY, memory * MIB, memory_used * MIB))
        amounts[place].append((CapacityType.CPU, cpu, cpu_used))
        amounts[place].append((CapacityType.CPU_CORE, cores, 0))
    cores_used = {place: int(used) for place, used in connection.execute(_cores_used(level, ids))}
    for place, local, total, promised, measured, used in connection.execute(_pool_sums(level, ids)):
        kind = CapacityType.LOCAL_STORAGE if local else CapacityType.STORAGE_ALLOCATED
        amounts[place].append((kind, int(total), int(promised)))
        if not local and used is not None:
            amounts[place].append((CapacityType.STORAGE, int(measured), int(used)))
    if level is not CapacityLevel.CLUSTER:
        for place, total, used in connection.execute(_address_sums(level, ids)):
            amounts[place].append((CapacityType.DIRECT_ATTACHED_PUBLIC_IP, int(total), int(used)))
    places = connection.execute(_places(level, ids)).mappings()
    return {
        place["_id"]: [
            _row(place, kind, total, cores_used.get(place["_id"], 0) if kind is CapacityType.CPU_CORE else used)
            for kind, total, used in sorted(amounts[place["_id"]])
        ]
        for place in places
    }


def add_capacity(connection: Connection, level: CapacityLevel, rows: Sequence[Row], *, wanted: bool) -> None:
    """Remove the internal id ``_id`` from each row and, if ``wanted``, add the field ``capacity``."""
    found = read_capacity(connection, level, [row["_id"] for row in rows]) if wanted else {}
    for row in rows:
        place = row.pop("_id")
        if wanted:
            row["capacity"] = found[place]


def list_capacity(
    connection: Connection,
    level: CapacityLevel,
    place_ids: Iterable[int],
    paging: Paging,
    *,
    kind: int | None,
    by_usage: bool,
) -> Page:
    """Return one page of capacity rows by place and type; ``kind`` selects one type.

    With ``by_usage``, the rows with the highest usage come first.
    """
    by_place = read_capacity(connection, level, place_ids)
    rows = [row for rows in by_place.values() for row in rows if kind is None or row["type"] == kind]
    if by_usage:
        rows.sort(key=lambda row: float(row["percentused"]), reverse=True)
    return cut_page(rows, paging)


def capacity_of_zones(connection: Connection) -> list[tuple[str, str, int, int]]:
    """Return, for each live zone and capacity type, the names of both, the total, and the used amount.

    Returns an empty list while a table is locked, for example by a migration, because monitoring must not wait for
    it.
    """
    connection.execute(_WAIT_BRIEFLY)
    try:
        zone_ids = place_ids(connection, CapacityLevel.ZONE, zone_id=None, pod_id=None, cluster_id=None)
        by_zone = read_capacity(connection, CapacityLevel.ZONE, zone_ids)
    except DBAPIError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        connection.rollback()
        return []
    return [
        (row["zonename"], row["name"], row["capacitytotal"], row["capacityused"])
        for rows in by_zone.values()
        for row in rows
    ]


def place_ids(
    connection: Connection, level: CapacityLevel, *, zone_id: int | None, pod_id: int | None, cluster_id: int | None
) -> list[int]:
    """Return the internal ids, in ascending order, of the live zones, pods or clusters that match these filters.

    ``level`` selects zones, pods or clusters. A filter that is None matches all.
    """
    key = _key(level)
    query = select(key).select_from(_tables(level)).where(key.table.c.removed.is_(None)).order_by(key)
    for column, wanted in ((zones.c.id, zone_id), (pods.c.id, pod_id), (clusters.c.id, cluster_id)):
        if wanted is not None:
            query = query.where(column == wanted)
    return list(connection.execute(query).scalars())


def _row(place: Any, kind: CapacityType, total: int, used: int) -> Row:
    row = {name: value for name, value in place.items() if name != "_id"}
    return {
        **row,
        "type": kind.value,
        "name": kind.name,
        "capacitytotal": total,
        "capacityused": used,
        "capacityallocated": used,
        "percentused": percentage(used, total),
    }


def _key(level: CapacityLevel) -> Column[Any]:
    return (zones.c.id, pods.c.id, clusters.c.id)[level]


def _place(level: CapacityLevel, table: Any) -> Column[Any]:
    """Return the column of ``table`` with the id of the zone, pod or cluster of a row."""
    column: Column[Any] = (table.c.zone_id, table.c.pod_id, table.c.cluster_id)[level]
    return column


def _tables(level: CapacityLevel) -> Any:
    if level is CapacityLevel.ZONE:
        return zones
    if level is CapacityLevel.POD:
        return pods.join(zones, zones.c.id == pods.c.zone_id)
    return clusters.join(pods, pods.c.id == clusters.c.pod_id).join(zones, zones.c.id == clusters.c.zone_id)


def _places(level: CapacityLevel, ids: Sequence[int]) -> Select[Any]:
    columns = [zones.c.uuid.label("zoneid"), zones.c.name.label("zonename")]
    if level >= CapacityLevel.POD:
        columns += [pods.c.uuid.label("podid"), pods.c.name.label("podname")]
    if level is CapacityLevel.CLUSTER:
        columns += [clusters.c.uuid.label("clusterid"), clusters.c.name.label("clustername")]
    key = _key(level)
    return select(key.label("_id"), *columns).select_from(_tables(level)).where(id_in(key, ids)).order_by(key)


def _host_sums(level: CapacityLevel, ids: Sequence[int]) -> Select[Any]:
    place, held = _place(level, hosts), host_capacity.c
    return (
        select(
            place,
            func.sum(held.memory_mib_limit),
            func.sum(held.memory_mib_used),
            func.sum(held.cpu_mhz_limit),
            func.sum(held.cpu_mhz_used),
            func.floor(func.sum(hosts.c.cpu_cores * clusters.c.cpu_overcommit)),
        )
        .select_from(
            hosts.join(host_capacity, held.host_id == hosts.c.id).join(
                clusters, clusters.c.id == hosts.c.cluster_id
            )
        )
        .where(id_in(place, ids), hosts.c.removed.is_(None), hosts.c.resource_state == HostResourceState.ENABLED)
        .group_by(place)
    )


def _cores_used(level: CapacityLevel, ids: Sequence[int]) -> Select[Any]:
    place = _place(level, hosts)
    return (
        select(place, func.sum(virtual_machines.c.cpu_number))
        .select_from(virtual_machines.join(hosts, hosts.c.id == virtual_machines.c.host_id))
        .where(id_in(place, ids), hosts.c.removed.is_(None), hosts.c.resource_state == HostResourceState.ENABLED)
        .group_by(place)
    )


def _pool_sums(level: CapacityLevel, ids: Sequence[int]) -> Select[Any]:
    """Return a query for the limits and claims of pools, and for the size and use of the measured pools."""
    pool, usage, place = storage_pools.c, pool_usage.c, _place(level, storage_pools)
    own, everywhere = configuration_values.alias(), configuration_values.alias()
    local = pool.scope == PoolScope.HOST
    factor = cast(func.coalesce(own.c.value, everywhere.c.value, BY_NAME[FACTOR].default), Numeric)
    total = case((local, cast(pool.capacity_bytes, Numeric)), else_=pool.capacity_bytes * factor)
    tables = storage_pools.outerjoin(
        own, and_(own.c.scope == Scope.STORAGE_POOL, own.c.scope_id == pool.id, own.c.name == FACTOR)
    ).outerjoin(
        everywhere,
        and_(everywhere.c.scope == Scope.GLOBAL, everywhere.c.scope_id == GLOBAL_ID, everywhere.c.name == FACTOR),
    )
    tables = tables.outerjoin(pool_usage, usage.pool_id == pool.id)
    return (
        select(
            place,
            local,
            func.floor(func.sum(total)),
            func.sum(pool.allocated_bytes),
            func.sum(func.coalesce(usage.total_bytes, pool.capacity_bytes)).filter(usage.used_bytes.is_not(None)),
            func.sum(usage.used_bytes),
        )
        .select_from(tables)
        .where(id_in(place, ids), pool.removed.is_(None))
        .group_by(place, local)
    )


def _address_sums(level: CapacityLevel, ids: Sequence[int]) -> Select[Any]:
    part = ip_ranges.c
    place = networks.c.zone_id if level is CapacityLevel.ZONE else part.pod_id
    given_back = (
        select(func.count())
        .where(released_addresses.c.ip_range_id == part.id)
        .correlate(ip_ranges)
        .scalar_subquery()
    )
    size = cast(part.end_ip.op("-")(part.start_ip), BigInteger) + 1
    handed_out = cast(part.next_ip.op("-")(part.start_ip), BigInteger) - given_back
    return (
        select(place, func.sum(size), func.sum(handed_out))
        .select_from(ip_ranges.join(networks, networks.c.id == part.network_id))
        .where(id_in(place, ids), part.removed.is_(None), networks.c.removed.is_(None))
        .group_by(place)
    )

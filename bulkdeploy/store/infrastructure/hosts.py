"""The list query of hosts, with their figures from the ledger (one file: one query)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, exists, func, not_, or_, select, true

from bulkdeploy.domain.compatibility import MANAGEMENT_SERVER_ID
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.capacity import percentage
from bulkdeploy.domain.infrastructure.power import PowerState
from bulkdeploy.domain.infrastructure.topology import ARCHITECTURE, HostResourceState, HypervisorType, PoolScope
from bulkdeploy.domain.units import KIB, mib_to_bytes
from bulkdeploy.store.availability import host_ha, out_of_band_management
from bulkdeploy.store.database.percentages import percent
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    always,
    by_id,
    filtered,
    id_in,
    keyword,
    same_text,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page, fetch_rows, rows_of
from bulkdeploy.store.rows.live_rows import Fields, reader
from bulkdeploy.store.tables.availability import bmcs
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones
from bulkdeploy.store.tables.usage import host_usage

HOST_TYPE = "Routing"
"""``type`` of hosts that run VMs; there are no others here."""

CAPABILITIES = "hvm"

SWITCHABLE = (HostResourceState.ENABLED, HostResourceState.DISABLED)
"""Resource states between which an operator switches a host."""

ALL = true()


def _of_hypervisor(name: str) -> Condition:
    """Return the condition for hosts of a hypervisor type. An unknown type selects all hosts, as in CloudStack."""
    return ALL if HypervisorType.parse(name) is None else same_text(hosts.c.hypervisor)(name)


def _has_bmc(enabled: bool) -> Condition:
    return exists().where(bmcs.c.host_id == hosts.c.id, bmcs.c.enabled) == enabled


def _in_power_state(state: str) -> Condition:
    power = select(func.lower(bmcs.c.power_state)).where(bmcs.c.host_id == hosts.c.id).scalar_subquery()
    return func.coalesce(power, PowerState.DISABLED.value.lower()) == state.lower()


FILTERS: Filters = {
    "id": by_id(hosts.c.id),
    "name": same_text(hosts.c.name),
    "keyword": keyword(hosts.c.name, hosts.c.state, hosts.c.ip_address),
    "zoneid": by_id(hosts.c.zone_id),
    "podid": by_id(hosts.c.pod_id),
    "clusterid": by_id(hosts.c.cluster_id),
    "hypervisor": _of_hypervisor,
    "state": same_text(hosts.c.state),
    "resourcestate": same_text(hosts.c.resource_state),
    "arch": always(ARCHITECTURE),
    "managementserverid": always(MANAGEMENT_SERVER_ID),
    "outofbandmanagementenabled": _has_bmc,
    "outofbandmanagementpowerstate": _in_power_state,
    "hahost": always(False),
}


FIELDS: Fields = {
    "zoneid": hosts.c.zone_id,
    "podid": hosts.c.pod_id,
    "clusterid": hosts.c.cluster_id,
    "hypervisor": hosts.c.hypervisor,
    "url": hosts.c.url,
    "name": hosts.c.name,
    "hosttags": hosts.c.tags,
    "allocationstate": hosts.c.resource_state,
    "annotation": hosts.c.annotation,
}

_read_all = reader(Entity.HOST, FIELDS)


def read_hosts(connection: Connection) -> list[dict[str, Any]]:
    """Return all hosts in the format of zone files.

    For a host in maintenance, the field ``allocationstate`` is omitted.
    """
    rows = _read_all(connection)
    for row in rows:
        if row["allocationstate"] not in SWITCHABLE:
            del row["allocationstate"]
    return rows


LEARNT: Fields = {
    "name": hosts.c.name,
    "hosttags": hosts.c.tags,
    "state": hosts.c.state,
    "resourcestate": hosts.c.resource_state,
    "ipaddress": hosts.c.ip_address,
    "hypervisorversion": hosts.c.hypervisor_version,
    "cpusockets": hosts.c.cpu_sockets,
    "cpucores": hosts.c.cpu_cores,
    "cpumhz": hosts.c.cpu_mhz,
    "memorymib": hosts.c.memory_mib,
}
"""What another cloud says of its hosts and may say otherwise tomorrow: what they have, and their states."""

read_learnt_hosts = reader(
    Entity.HOST,
    {
        **{name: FIELDS[name] for name in ("zoneid", "podid", "clusterid", "hypervisor", "url")},
        **LEARNT,
    },
)
"""All hosts, with what another cloud says of its own: what they have, and their states."""


def hosts_with_limits(connection: Connection) -> list[Row[Any]]:
    """Return every live host with its hardware (cores, MHz per core, MiB) and its limits in the ledger.

    The rows are ordered by the host's internal id.
    """
    host, held = hosts.c, host_capacity.c
    query = select(
        *(host.uuid, host.name, host.hypervisor, host.cpu_cores, host.cpu_mhz, host.memory_mib),
        *(held.cpu_mhz_limit, held.memory_mib_limit, held.vms_limit),
    ).join(host_capacity, held.host_id == host.id)
    return list(connection.execute(query.where(host.removed.is_(None)).order_by(host.id)))


def list_hosts(
    connection: Connection, arguments: Arguments, paging: Paging, *, with_capacity: bool, among: Condition = ALL
) -> Page:
    """Return one page of hosts, ordered by id.

    ``with_capacity`` adds claimed capacity and the use of local disks. ``among`` is an additional condition.
    """
    found = filtered(select(hosts.c.id).where(hosts.c.removed.is_(None), among), FILTERS, arguments)
    page = fetch_page(connection, found.order_by(hosts.c.id), paging)
    read = partial(_rows, connection, with_capacity=with_capacity)
    return Page(rows_of([row["id"] for row in page.rows], read), page.count)


def _rows(connection: Connection, ids: Sequence[int], *, with_capacity: bool) -> dict[int, dict[str, Any]]:
    """Return hosts by internal id. Tables are joined for the rows of the page only."""
    found, _ = fetch_rows(connection, _query().where(id_in(hosts.c.id, ids)), Paging(limit=None))
    rows = {row.pop("_id"): row for row in found}
    disks = _local_disks(connection, ids) if with_capacity else {}
    shown = _availability(connection, ids)
    for host_id, row in rows.items():
        _finish(row, with_capacity=with_capacity)
        row.update(shown[host_id])
        if with_capacity:
            row["islocalstorageactive"] = host_id in disks
            row.update(disks.get(host_id, {}))
    return rows


def _availability(connection: Connection, host_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response fields ``outofbandmanagement`` and ``hostha`` of hosts, by host id."""
    controllers = out_of_band_management.shown_bmcs(connection, host_ids)
    states = host_ha.shown_ha(connection, host_ids)
    return {
        host_id: {
            "outofbandmanagement": controllers.get(host_id, out_of_band_management.NOT_CONFIGURED),
            "hostha": states.get(host_id, host_ha.NOT_CONFIGURED),
        }
        for host_id in host_ids
    }


def host_rows(connection: Connection, host_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response objects of these hosts by internal id. Removed hosts are omitted."""
    rows, _ = fetch_rows(connection, _query().where(id_in(hosts.c.id, host_ids)), Paging(None))
    by_id = {row.pop("_id"): row for row in rows}
    shown = _availability(connection, host_ids)
    for host_id, row in by_id.items():
        _finish(row, with_capacity=True)
        row.update(shown[host_id])
    return by_id


@dataclass(frozen=True, slots=True)
class Reach:
    """The hosts to which a VM could migrate according to its volumes and addresses. None means no restriction."""

    zone_id: int
    hypervisor: str
    pod_id: int | None
    cluster_id: int | None
    host_id: int | None
    without_host_id: int


def list_destinations(connection: Connection, reach: Reach, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the hosts that match ``reach``, each with its internal id as ``_id``."""
    host = hosts.c
    bounds = ((host.pod_id, reach.pod_id), (host.cluster_id, reach.cluster_id), (host.id, reach.host_id))
    among = and_(
        host.zone_id == reach.zone_id,
        host.hypervisor == reach.hypervisor,
        host.id != reach.without_host_id,
        *(column == bound for column, bound in bounds if bound is not None),
    )
    page = list_hosts(connection, arguments, paging, with_capacity=True, among=among)
    rows = list(page.rows)
    named = connection.execute(select(host.uuid, host.id).where(host.uuid.in_([row["id"] for row in rows])))
    ids = {row.uuid: row.id for row in named}
    return Page([{**row, "_id": ids[row["id"]]} for row in rows], page.count)


@dataclass(frozen=True, slots=True)
class Places:
    """A set of hosts, given by internal ids of hosts, of their clusters and of their pods."""

    pod_ids: Collection[int] = ()
    cluster_ids: Collection[int] = ()
    host_ids: Collection[int] = ()

    def condition(self) -> Condition:
        """Return the SQL condition that a row of ``hosts`` belongs to this set."""
        host = hosts.c
        return or_(
            id_in(host.pod_id, self.pod_ids),
            id_in(host.cluster_id, self.cluster_ids),
            id_in(host.id, self.host_ids),
        )


NO_PLACES = Places()


def hosts_outside(connection: Connection, onto: Places, off: Places) -> frozenset[int]:
    """Return the ids of the live hosts that are in ``off`` or not in ``onto``.

    An empty ``onto`` contains all hosts.
    """
    among = off.condition() if onto == NO_PLACES else or_(not_(onto.condition()), off.condition())
    return frozenset(connection.execute(select(hosts.c.id).where(hosts.c.removed.is_(None), among)).scalars())


def _query() -> Select[Any]:
    host, held = hosts.c, host_capacity.c
    return select(*_columns()).select_from(
        hosts.join(clusters, clusters.c.id == host.cluster_id)
        .join(pods, pods.c.id == host.pod_id)
        .join(zones, zones.c.id == host.zone_id)
        .join(host_capacity, held.host_id == host.id)
        .outerjoin(host_usage, host_usage.c.host_id == host.id)
    )


def _columns() -> tuple[ColumnElement[Any], ...]:
    host, held = hosts.c, host_capacity.c
    return (
        host.id.label("_id"),
        host.uuid.label("id"),
        host.name,
        host.state,
        host.resource_state.label("resourcestate"),
        host.hypervisor,
        host.hypervisor_version.label("hypervisorversion"),
        host.ip_address.label("ipaddress"),
        zones.c.uuid.label("zoneid"),
        zones.c.name.label("zonename"),
        pods.c.uuid.label("podid"),
        pods.c.name.label("podname"),
        clusters.c.uuid.label("clusterid"),
        clusters.c.name.label("clustername"),
        clusters.c.cluster_type.label("clustertype"),
        host.cpu_sockets.label("cpusockets"),
        host.cpu_cores.label("cpunumber"),
        host.cpu_mhz.label("cpuspeed"),
        host.memory_mib,
        host.tags,
        host.details,
        host.created,
        host.annotation,
        *annotation_columns(Entity.HOST),
        host.annotated.label("lastannotated"),
        held.cpu_mhz_limit,
        held.cpu_mhz_used,
        held.memory_mib_limit,
        held.memory_mib_used,
        percent(host_usage.c.cpu_share).label("cpuused"),
        (host_usage.c.memory_used_kib * KIB).label("memoryused"),
        host_usage.c.received_kib.label("networkkbsread"),
        host_usage.c.sent_kib.label("networkkbswrite"),
    )


def _finish(row: dict[str, Any], *, with_capacity: bool) -> None:
    """Convert a row from the units of the tables (MiB, arrays) to those of API responses (bytes, texts)."""
    tags = ",".join(row.pop("tags"))
    memory = mib_to_bytes(row.pop("memory_mib"))
    memory_limit, memory_used = (mib_to_bytes(row.pop(name)) for name in ("memory_mib_limit", "memory_mib_used"))
    cpu_limit, cpu_used = row.pop("cpu_mhz_limit"), row.pop("cpu_mhz_used")
    row.update(
        type=HOST_TYPE,
        capabilities=CAPABILITIES,
        arch=ARCHITECTURE,
        hahost=False,
        istagarule=False,
        hosttags=tags or None,
        explicithosttags=tags or None,
        memorytotal=memory,
    )
    if not with_capacity:
        return
    cpu_share = f"{percentage(cpu_used, row['cpunumber'] * row['cpuspeed'])}%"
    row.update(
        cpuallocated=cpu_share,
        cpuallocatedpercentage=cpu_share,
        cpuallocatedvalue=cpu_used,
        cpuallocatedwithoverprovisioning=f"{percentage(cpu_used, cpu_limit)}%",
        cpuwithoverprovisioning=str(cpu_limit),
        memoryallocated=memory_used,
        memoryallocatedbytes=memory_used,
        memoryallocatedpercentage=f"{percentage(memory_used, memory_limit)}%",
        memorywithoverprovisioning=str(memory_limit),
    )


def _local_disks(connection: Connection, host_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return ``disksizetotal`` and ``disksizeallocated`` in bytes for each host with local storage, by host id."""
    pool = storage_pools.c
    query = (
        select(pool.host_id, func.sum(pool.capacity_bytes), func.sum(pool.allocated_bytes))
        .where(id_in(pool.host_id, host_ids), pool.scope == PoolScope.HOST, pool.removed.is_(None))
        .group_by(pool.host_id)
    )
    return {
        host_id: {"disksizetotal": int(total), "disksizeallocated": int(allocated)}
        for host_id, total, allocated in connection.execute(query)
    }

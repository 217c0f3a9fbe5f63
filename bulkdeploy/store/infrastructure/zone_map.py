"""The hosts of a zone by cluster, as columns with one number per host."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Subquery, Text, case, cast, func, literal, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from bulkdeploy.domain.infrastructure.topology import HostResourceState, HostState
from bulkdeploy.domain.units import KIB
from bulkdeploy.store.deployments.managed_deployments import parts_of_deployment
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, pods
from bulkdeploy.store.tables.usage import host_usage
from bulkdeploy.store.tables.virtual_machines import virtual_machines

PER_CENT = 100
UNKNOWN = -1
"""The share of a host that was not measured."""
USABLE, DISABLED, MAINTENANCE, LOST = "u", "d", "m", "l"
"""A host that is up and enabled; that is disabled; in or before maintenance; that is not up."""


def _share(part: ColumnElement[Any], total: ColumnElement[Any]) -> ColumnElement[int]:
    share = cast(func.round(part * literal(float(PER_CENT)) / func.nullif(total, 0)), BigInteger)
    return func.least(func.coalesce(share, 0), PER_CENT)


_held, _used, _host = host_capacity.c, host_usage.c, hosts.c
SHARES: Mapping[str, ColumnElement[int]] = {
    "memoryallocated": _share(_held.memory_mib_used, _held.memory_mib_limit),
    "cpuallocated": _share(_held.cpu_mhz_used, _held.cpu_mhz_limit),
    "memoryused": case(
        (_used.host_id.is_(None), UNKNOWN), else_=_share(_used.memory_used_kib, _host.memory_mib * KIB)
    ),
    "cpuused": func.coalesce(cast(func.round(_used.cpu_share / literal(float(PER_CENT))), BigInteger), UNKNOWN),
}
"""Shares of a host in per cent, by their names in calls."""

_STATE = case(
    (_host.state != HostState.UP, LOST),
    (_host.resource_state == HostResourceState.ENABLED, USABLE),
    (_host.resource_state == HostResourceState.DISABLED, DISABLED),
    else_=MAINTENANCE,
)


@dataclass(frozen=True, slots=True)
class CountedVms:
    """The selection of VMs that are counted per host: those of some owners, optionally of one deployment only."""

    owners: Visibility
    deployment_id: int | None


def read_zone_map(
    connection: Connection, zone_id: int, share: str, counted: CountedVms | None
) -> list[dict[str, Any]]:
    """Return the clusters of a zone that have hosts, by pod and name, each with its hosts as columns.

    All columns of a cluster have the same order of hosts, which is the order of their creation.

    Args:
        connection: the call's connection.
        zone_id: the zone.
        share: the name of the shown share, one of SHARES.
        counted: selects the VMs that the column ``vms`` counts. If it is None, there is no such column.
    """
    found = hosts.join(host_capacity, _held.host_id == _host.id).outerjoin(host_usage, _used.host_id == _host.id)
    columns = {"shares": _texts(SHARES[share]), "states": _letters()}
    if counted is not None:
        vms = _vms_by_host(counted)
        found = found.outerjoin(vms, vms.c.host_id == _host.id)
        columns["vms"] = _texts(func.coalesce(vms.c.vms, 0))
    in_clusters = (
        select(
            _host.cluster_id,
            func.array_agg(aggregate_order_by(_host.name, _host.id)).label("hosts"),
            *(column.label(name) for name, column in columns.items()),
        )
        .select_from(found)
        .where(_host.zone_id == zone_id, _host.removed.is_(None))
        .group_by(_host.cluster_id)
        .subquery()
    )
    query = (
        select(
            clusters.c.uuid.label("id"),
            clusters.c.name,
            pods.c.uuid.label("podid"),
            pods.c.name.label("podname"),
            *(one for one in in_clusters.c if one.name != "cluster_id"),
        )
        .join(in_clusters, in_clusters.c.cluster_id == clusters.c.id)
        .join(pods, pods.c.id == clusters.c.pod_id)
        .order_by(pods.c.name, pods.c.id, clusters.c.name, clusters.c.id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _vms_by_host(counted: CountedVms) -> Subquery:
    vm = virtual_machines.c
    query = select(vm.host_id, func.count().label("vms")).where(
        vm.host_id.is_not(None), vm.removed.is_(None), counted.owners.of_account(vm.account_id)
    )
    if counted.deployment_id is not None:
        query = query.where(vm.deployment_id.in_(parts_of_deployment(counted.deployment_id)))
    return query.group_by(vm.host_id).subquery()


def _texts(column: ColumnElement[Any]) -> ColumnElement[str]:
    return func.string_agg(cast(column, Text), aggregate_order_by(literal(","), _host.id))


def _letters() -> ColumnElement[str]:
    return func.string_agg(_STATE, aggregate_order_by(literal(""), _host.id))

"""Rows of clusters: the list query, the objects in a cluster, and its over-commit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Connection, func, select, text

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.capacity import CapacityLevel
from bulkdeploy.domain.infrastructure.topology import ARCHITECTURE
from bulkdeploy.store.configuration.configurations import OVERCOMMIT
from bulkdeploy.store.ledger.capacity import add_capacity
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
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields, change_rows
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones

FILTERS: Filters = {
    "id": by_id(clusters.c.id),
    "name": same_text(clusters.c.name),
    "keyword": keyword(clusters.c.name, clusters.c.hypervisor),
    "zoneid": by_id(clusters.c.zone_id),
    "podid": by_id(clusters.c.pod_id),
    "hypervisor": same_text(clusters.c.hypervisor),
    "clustertype": same_text(clusters.c.cluster_type),
    "managedstate": same_text(clusters.c.managed_state),
    "allocationstate": same_text(clusters.c.allocation_state),
    "allocpolicy": same_text(clusters.c.alloc_policy),
    "arch": always(ARCHITECTURE),
}

FIELDS: Fields = {
    "zoneid": clusters.c.zone_id,
    "podid": clusters.c.pod_id,
    "clustername": clusters.c.name,
    "clustertype": clusters.c.cluster_type,
    "hypervisor": clusters.c.hypervisor,
    "allocationstate": clusters.c.allocation_state,
    "allocpolicy": clusters.c.alloc_policy,
    "managedstate": clusters.c.managed_state,
}

HOSTS: Column[Any] = hosts.c.cluster_id

CONTENTS: Mapping[str, Column[Any]] = {"hosts": HOSTS, "storage pools": storage_pools.c.cluster_id}
"""What must be gone before a cluster is."""


def facts(connection: Connection, wanted: Condition) -> list[Mapping[str, Any]]:
    """Return the columns of the live clusters that match a condition, and ``local_storage_enabled`` of the zone."""
    query = (
        select(clusters, zones.c.local_storage_enabled)
        .join(zones, zones.c.id == clusters.c.zone_id)
        .where(wanted, clusters.c.removed.is_(None))
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def facts_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, Mapping[str, Any]]:
    """Return live clusters by internal id, with the columns of ``facts``."""
    return {row["id"]: row for row in facts(connection, id_in(clusters.c.id, ids))}


def facts_of_pods(connection: Connection, pod_ids: Iterable[int]) -> dict[tuple[int, str], Mapping[str, Any]]:
    """Return the live clusters of pods by pod id and cluster name, with the columns of ``facts``."""
    return {(row["pod_id"], row["name"]): row for row in facts(connection, id_in(clusters.c.pod_id, pod_ids))}


def list_clusters(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of clusters, ordered by id."""
    cluster = clusters.c
    query = (
        select(
            cluster.id.label("_id"),
            cluster.uuid.label("id"),
            cluster.name,
            pods.c.uuid.label("podid"),
            pods.c.name.label("podname"),
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            cluster.hypervisor.label("hypervisortype"),
            cluster.cluster_type.label("clustertype"),
            cluster.managed_state.label("managedstate"),
            cluster.allocation_state.label("allocationstate"),
            cluster.alloc_policy.label("allocpolicy"),
            cluster.cpu_overcommit.label("cpuovercommitratio"),
            cluster.memory_overcommit.label("memoryovercommitratio"),
            *annotation_columns(Entity.CLUSTER),
        )
        .select_from(clusters.join(pods, pods.c.id == cluster.pod_id).join(zones, zones.c.id == cluster.zone_id))
        .where(cluster.removed.is_(None))
        .order_by(cluster.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        for ratio in ("cpuovercommitratio", "memoryovercommitratio"):
            row[ratio] = str(row[ratio])
    add_capacity(connection, CapacityLevel.CLUSTER, rows, wanted=bool(arguments.get("showcapacities")))
    return Page(rows, count)


def read_overcommit(connection: Connection, cluster_id: int) -> dict[str, str]:
    """Return the cluster's over-commit ratios as texts, by the name of the setting.

    A ratio has as many decimals as were given, such as ``2`` or ``2.0``.
    """
    return {name: str(factor) for name, factor in overcommit_of(connection, cluster_id).items()}


def overcommit_of(connection: Connection, cluster_id: int) -> Mapping[str, Decimal]:
    """Return the cluster's over-commit ratios, by the name of the setting."""
    columns = [column.label(name) for name, column in OVERCOMMIT.items()]
    row = connection.execute(select(*columns).where(clusters.c.id == cluster_id)).mappings().one()
    return {name: row[name] for name in OVERCOMMIT}


@dataclass(frozen=True, slots=True)
class ClusterOvercommit:
    """The over-commit ratios of a cluster with live hosts, and the uuids of these hosts."""

    name: str
    hypervisor: str
    cpu: Decimal
    memory: Decimal
    host_uuids: Sequence[UUID]


def clusters_with_hosts(connection: Connection, cluster_ids: Iterable[int]) -> list[ClusterOvercommit]:
    """Return the clusters out of ``cluster_ids`` that have live hosts, ordered by id."""
    cluster, host = clusters.c, hosts.c
    query = (
        select(
            cluster.name,
            cluster.hypervisor,
            cluster.cpu_overcommit,
            cluster.memory_overcommit,
            func.array_agg(host.uuid),
        )
        .join(hosts, host.cluster_id == cluster.id)
        .where(id_in(cluster.id, cluster_ids), host.removed.is_(None))
        .group_by(cluster.id)
        .order_by(cluster.id)
    )
    return [ClusterOvercommit(*row) for row in connection.execute(query)]


def write_overcommit(connection: Connection, factors: Mapping[EntityRef, Mapping[str, Decimal]]) -> None:
    """Write the CPU or memory over-commit ratios of clusters, by setting, and update the limits of their hosts.

    Existing claims are kept. A host whose new limit is below its claims gets no new VM until enough VMs have left
    the host.
    """
    change_rows(
        connection,
        ((ref, {OVERCOMMIT[name].name: factor for name, factor in own.items()}) for ref, own in factors.items()),
    )
    ids = {"clusters": [ref.id for ref in factors]}
    # Hosts by id, as every claim locks them.
    connection.execute(
        text(
            "SELECT FROM host_capacity WHERE host_id IN (SELECT id FROM hosts WHERE cluster_id = ANY(:clusters))"
            " ORDER BY host_id FOR UPDATE"
        ),
        ids,
    )
    connection.execute(
        text(
            "UPDATE host_capacity c SET cpu_mhz_limit = floor(h.cpu_cores::bigint * h.cpu_mhz * k.cpu_overcommit),"
            " memory_mib_limit = floor(h.memory_mib * k.memory_overcommit)"
            " FROM hosts h JOIN clusters k ON k.id = h.cluster_id"
            " WHERE c.host_id = h.id AND k.id = ANY(:clusters)"
        ),
        ids,
    )

"""The list query of allocations: claims on hosts and storage pools with their consumers."""

from typing import Any

from sqlalchemy import BigInteger, Connection, Text, case, cast, func, null, select, union_all
from sqlalchemy import Uuid as UuidType

from bulkdeploy.store.ledger.ledger import ConsumerKind
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, same_text, same_uuid
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.hypervisors import template_copies
from bulkdeploy.store.tables.jobs import async_jobs
from bulkdeploy.store.tables.ledger import host_capacity, host_claims, storage_claims
from bulkdeploy.store.tables.offerings import templates
from bulkdeploy.store.tables.topology import clusters, hosts, storage_pools
from bulkdeploy.store.tables.virtual_machines import virtual_machines, volumes

VIRTUAL_MACHINE, MIGRATION, VOLUME, TEMPLATE = "VirtualMachine", "Migration", "Volume", "Template"
CONSUMER_TYPES = (VIRTUAL_MACHINE, MIGRATION, VOLUME, TEMPLATE)

_moving = virtual_machines.alias()

_OF_HOSTS = select(
    host_claims.c.consumer.label("consumerid"),
    case((host_claims.c.consumer_kind != ConsumerKind.VM.value, MIGRATION), else_=VIRTUAL_MACHINE).label(
        "consumertype"
    ),
    func.coalesce(virtual_machines.c.name, _moving.c.name).label("consumername"),
    hosts.c.uuid.label("hostid"),
    hosts.c.name.label("hostname"),
    cast(null(), UuidType).label("storageid"),
    cast(null(), Text).label("storage"),
    host_claims.c.cpu_mhz.label("cpu"),
    host_claims.c.memory_mib.label("memory"),
    cast(null(), BigInteger).label("size"),
    host_claims.c.created.label("created"),
    hosts.c.zone_id.label("in_zone"),
    hosts.c.pod_id.label("in_pod"),
    hosts.c.cluster_id.label("in_cluster"),
    host_claims.c.host_id.label("in_host"),
    cast(null(), BigInteger).label("in_pool"),
).select_from(
    host_claims.join(hosts, hosts.c.id == host_claims.c.host_id)
    .outerjoin(virtual_machines, virtual_machines.c.uuid == host_claims.c.consumer)
    .outerjoin(async_jobs, async_jobs.c.uuid == host_claims.c.consumer)
    .outerjoin(_moving, _moving.c.id == async_jobs.c.instance_id)
)

_OF_POOLS = select(
    storage_claims.c.consumer,
    case((template_copies.c.uuid.is_not(None), TEMPLATE), else_=VOLUME),
    func.coalesce(volumes.c.name, templates.c.name),
    cast(null(), UuidType),
    cast(null(), Text),
    storage_pools.c.uuid,
    storage_pools.c.name,
    cast(null(), BigInteger),
    cast(null(), BigInteger),
    storage_claims.c.size_bytes,
    storage_claims.c.created,
    storage_pools.c.zone_id,
    storage_pools.c.pod_id,
    storage_pools.c.cluster_id,
    storage_pools.c.host_id,
    storage_claims.c.pool_id,
).select_from(
    storage_claims.join(storage_pools, storage_pools.c.id == storage_claims.c.pool_id)
    .outerjoin(volumes, volumes.c.uuid == storage_claims.c.consumer)
    .outerjoin(template_copies, template_copies.c.uuid == storage_claims.c.consumer)
    .outerjoin(templates, templates.c.uuid == template_copies.c.template_uuid)
)

_every = union_all(_OF_HOSTS, _OF_POOLS).subquery()
_column = _every.c
SHOWN = tuple(column for column in _column if not str(column.name).startswith("in_"))

FILTERS: Filters = {
    "consumerid": same_uuid(_column.consumerid),
    "consumertype": same_text(_column.consumertype),
    "hostid": by_id(_column.in_host),
    "storageid": by_id(_column.in_pool),
    "clusterid": by_id(_column.in_cluster),
    "podid": by_id(_column.in_pod),
    "zoneid": by_id(_column.in_zone),
}


def list_allocations(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of claims on hosts and pools, by place and consumer. A migration's claim is on its source.

    ``hostid`` also selects the volumes on the host's local disks.
    """
    query = filtered(select(*SHOWN), FILTERS, arguments)
    place = func.coalesce(_column.hostname, _column.storage)
    return fetch_page(connection, query.order_by(place, _column.consumerid), paging)


def allocations_of_host(connection: Connection, host_id: int) -> list[dict[str, Any]]:
    """Return the claims on one host and its local disks, the claim with the most memory first."""
    query = select(*SHOWN).where(_column.in_host == host_id)
    order = (_column.memory.desc().nulls_last(), _column.size.desc(), _column.consumerid)
    return [dict(row) for row in connection.execute(query.order_by(*order)).mappings()]


def find_hosts(connection: Connection, name_or_uuid: str) -> list[dict[str, Any]]:
    """Return the live hosts with this name or uuid, with their cluster, their limits and their claimed amounts."""
    query = (
        select(
            hosts.c.id,
            hosts.c.uuid,
            hosts.c.name,
            clusters.c.name.label("cluster"),
            *(column for column in host_capacity.c if column.name != "host_id"),
        )
        .select_from(
            hosts.join(clusters, clusters.c.id == hosts.c.cluster_id).join(
                host_capacity, host_capacity.c.host_id == hosts.c.id
            )
        )
        .where(
            hosts.c.removed.is_(None), (hosts.c.name == name_or_uuid) | (cast(hosts.c.uuid, Text) == name_or_uuid)
        )
        .order_by(hosts.c.id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]

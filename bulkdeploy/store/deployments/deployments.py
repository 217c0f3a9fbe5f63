"""Bulk deployments as a whole: found by token, listed with the states of their jobs, cancelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from zlib import crc32

from sqlalchemy import Connection, Row, select, text

from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, keyword
from bulkdeploy.store.rows.listing import Orders, Page, Paging, fetch_page, ordered
from bulkdeploy.store.rows.visibility import Visibility, account_name, owner_columns, with_owner
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import deployments

FILTERS: Filters = {
    "id": by_id(deployments.c.id),
    "zoneid": by_id(deployments.c.zone_id),
    "keyword": keyword(zones.c.name),
}


@dataclass(frozen=True, slots=True)
class DeployedVms:
    """The result of a deploy call: its jobs and VMs, in creation order.

    If the call had a list of entries, ``entries`` contains the entry of each VM, and ``failed`` the omitted
    entries.
    """

    uuid: UUID
    created: datetime
    job_uuids: Sequence[str]
    vm_uuids: Sequence[str]
    listed: Mapping[str, Any] = field(default_factory=dict)


def find_by_token(connection: Connection, user_id: int, token: str) -> tuple[bytes, DeployedVms] | None:
    """Return the fingerprint and the result of the earlier call with this request token, or None.

    Waits for an unfinished call with the same token, and makes later calls wait until this transaction ends.
    """
    take_lock(connection, Lock.REQUEST_TOKEN, crc32(f"{user_id} {token}".encode()) - 2**31)
    row = connection.execute(
        text(
            "SELECT id, uuid, created, request_fingerprint, config FROM deployments"
            " WHERE user_id = :user AND request_token = :token"
        ),
        {"user": user_id, "token": token},
    ).first()
    if row is None:
        return None
    jobs = connection.execute(
        text("SELECT uuid, instance_uuid FROM async_jobs WHERE deployment_id = :id ORDER BY id"),
        {"id": row.id},
    ).all()
    deployed = DeployedVms(
        row.uuid,
        row.created,
        [str(job.uuid) for job in jobs],
        [str(job.instance_uuid) for job in jobs],
        {name: row.config[name] for name in ("entries", "failed") if name in row.config},
    )
    return bytes(row.request_fingerprint), deployed


def is_bulk(connection: Connection, deployment_id: int) -> bool:
    """Return whether a bulk call created the deployment."""
    query = select(deployments.c.bulk).where(deployments.c.id == deployment_id)
    return bool(connection.execute(query).scalar_one())


ORDERS: Orders = {
    "count": deployments.c.vm_count,
    "account": account_name(),
    "zonename": zones.c.name,
    "created": deployments.c.created,
}


def list_deployments(connection: Connection, visible: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of bulk deployments, newest first, with stored plan (``plan``) and internal id (``_id``)."""
    query = filtered(
        select(
            deployments.c.id.label("_id"),
            deployments.c.uuid.label("id"),
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            *owner_columns(),
            deployments.c.created,
            deployments.c.asked_count.label("asked"),
            deployments.c.vm_count.label("count"),
            deployments.c.cancel_requested,
            deployments.c.plan,
        )
        .select_from(
            with_owner(deployments, deployments.c.account_id).join(zones, zones.c.id == deployments.c.zone_id)
        )
        .where(deployments.c.bulk, deployments.c.batch_id.is_(None), visible.condition()),
        FILTERS,
        arguments,
    )
    return fetch_page(connection, ordered(query, ORDERS, arguments, deployments.c.id.desc()), paging)


def count_succeeded(connection: Connection, deployment_id: int) -> dict[int, int]:
    """Count the deployment's successfully deployed VMs by the id of the cluster in which they are now."""
    rows = connection.execute(
        text(
            "SELECT v.cluster_id, count(*) AS vms FROM async_jobs j JOIN virtual_machines v ON v.id = j.instance_id"
            " WHERE j.deployment_id = :id AND j.status = 1 AND v.deployment_id = :id AND v.cluster_id IS NOT NULL"
            " GROUP BY v.cluster_id"
        ),
        {"id": deployment_id},
    )
    return {row.cluster_id: row.vms for row in rows}


def deployment_owner(connection: Connection, deployment_id: int) -> int:
    """Return the internal id of the account that owns the deployment's VMs."""
    query = select(deployments.c.account_id).where(deployments.c.id == deployment_id)
    return int(connection.execute(query).scalar_one())


def plan_clusters(connection: Connection, plans: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return names and uuids of the clusters and pods that these stored plans mention, by cluster id."""
    ids = sorted({cluster_id for plan in plans for cluster_id in plan["clusters"]})
    rows = connection.execute(
        text(
            "SELECT c.id, c.uuid AS clusterid, c.name AS clustername, p.uuid AS podid, p.name AS podname"
            " FROM clusters c JOIN pods p ON p.id = c.pod_id WHERE c.id = ANY(:ids)"
        ),
        {"ids": ids},
    ).mappings()
    return {row["id"]: {key: row[key] for key in row if key != "id"} for row in rows}


def plan_hosts(connection: Connection, host_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return names and uuids of these hosts, their clusters and their pods, by host id.

    Removed hosts are omitted.
    """
    rows = connection.execute(
        text(
            "SELECT h.id, h.uuid AS hostid, h.name AS hostname, c.uuid AS clusterid, c.name AS clustername,"
            " p.uuid AS podid FROM hosts h JOIN clusters c ON c.id = h.cluster_id JOIN pods p ON p.id = c.pod_id"
            " WHERE h.id = ANY(:ids) AND h.removed IS NULL"
        ),
        {"ids": list(host_ids)},
    ).mappings()
    return {row["id"]: {key: row[key] for key in row if key != "id"} for row in rows}


def pool_uuids(connection: Connection, pool_ids: Sequence[int]) -> dict[int, UUID]:
    """Return the uuids of storage pools by internal id."""
    rows = connection.execute(
        text("SELECT id, uuid FROM storage_pools WHERE id = ANY(:ids)"), {"ids": list(pool_ids)}
    )
    return {row.id: row.uuid for row in rows}


def vm_places(connection: Connection, vm_uuids: Sequence[str]) -> dict[str, Row[Any]]:
    """Return the uuid, name, ``host_id`` and ``pool_ids`` of VMs by uuid. Unknown VMs are omitted.

    ``pool_ids`` are the storage pools of the VM's volumes in the order of their device ids.
    """
    rows = connection.execute(
        text(
            "SELECT CAST(v.uuid AS text) AS uuid, v.name, v.host_id, ARRAY("
            "   SELECT x.pool_id FROM volumes x WHERE x.vm_id = v.id AND x.removed IS NULL"
            "   AND x.pool_id IS NOT NULL ORDER BY x.device_id) AS pool_ids"
            " FROM virtual_machines v WHERE v.uuid = ANY(CAST(:uuids AS uuid[]))"
        ),
        {"uuids": list(vm_uuids)},
    )
    return {row.uuid: row for row in rows}

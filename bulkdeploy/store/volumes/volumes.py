"""The list query of volumes."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, FromClause, Select, case, literal, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.topology import PoolScope, StorageType
from bulkdeploy.store.resource_tags import VOLUME, add_tags
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Filters,
    always,
    by_id,
    by_ids,
    equal,
    filtered,
    id_in,
    keyword,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.offerings import disk_offerings, service_offerings, templates
from bulkdeploy.store.tables.topology import clusters, pods, storage_pools, zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines, volumes

DESTROYED, EXPUNGED = "Destroy", "Expunged"


def list_volumes(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of visible volumes, ordered by id."""
    query = _query().where(visibility.condition(), volumes.c.removed.is_(None)).order_by(volumes.c.id)
    rows, count = fetch_rows(connection, filtered(query, _filters(), arguments), paging)
    _finish(connection, rows)
    return Page(rows, count)


def volume_rows(connection: Connection, volume_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response objects of these volumes by internal id. Removed volumes are omitted."""
    if not volume_ids:
        return {}
    query = _query().where(id_in(volumes.c.id, volume_ids), volumes.c.removed.is_(None))
    rows, _ = fetch_rows(connection, query, Paging(None))
    by_id = {row["_id"]: row for row in rows}
    _finish(connection, rows)
    return by_id


def _finish(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        row.update(
            destroyed=row["state"] == DESTROYED,
            displayvolume=True,
            isextractable=False,
            provisioningtype="thin",
        )
    add_tags(connection, VOLUME, rows)


def _query() -> Select[Any]:
    volume, vm, pool = volumes.c, virtual_machines.c, storage_pools.c
    is_local = pool.scope == PoolScope.HOST
    return select(
        volume.id.label("_id"),
        volume.uuid.label("id"),
        volume.name,
        volume.volume_type.label("type"),
        volume.state,
        volume.size_bytes.label("size"),
        volume.device_id.label("deviceid"),
        volume.created,
        volume.attached,
        volume.delete_protection.label("deleteprotection"),
        *owner_columns(),
        zones.c.uuid.label("zoneid"),
        zones.c.name.label("zonename"),
        vm.uuid.label("virtualmachineid"),
        vm.name.label("vmname"),
        vm.display_name.label("vmdisplayname"),
        vm.state.label("vmstate"),
        case((vm.id.is_not(None), literal("User"))).label("vmtype"),
        vm.hypervisor,
        disk_offerings.c.uuid.label("diskofferingid"),
        disk_offerings.c.name.label("diskofferingname"),
        disk_offerings.c.display_text.label("diskofferingdisplaytext"),
        service_offerings.c.uuid.label("serviceofferingid"),
        service_offerings.c.name.label("serviceofferingname"),
        service_offerings.c.display_text.label("serviceofferingdisplaytext"),
        templates.c.uuid.label("templateid"),
        templates.c.name.label("templatename"),
        templates.c.display_text.label("templatedisplaytext"),
        pool.uuid.label("storageid"),
        pool.name.label("storage"),
        case((is_local, StorageType.LOCAL.value), else_=StorageType.SHARED.value).label("storagetype"),
        clusters.c.uuid.label("clusterid"),
        clusters.c.name.label("clustername"),
        pods.c.uuid.label("podid"),
        pods.c.name.label("podname"),
        *annotation_columns(Entity.VOLUME),
    ).select_from(_tables())


def _tables() -> FromClause:
    """Return volumes joined with their owner, VM and pool. A zone-wide pool has no pod and no cluster."""
    volume, vm, pool = volumes.c, virtual_machines.c, storage_pools.c
    return (
        with_owner(volumes, volume.account_id)
        .join(zones, zones.c.id == volume.zone_id)
        .outerjoin(virtual_machines, vm.id == volume.vm_id)
        .outerjoin(disk_offerings, disk_offerings.c.id == volume.disk_offering_id)
        .outerjoin(service_offerings, service_offerings.c.id == volume.service_offering_id)
        .outerjoin(templates, templates.c.id == volume.template_id)
        .outerjoin(storage_pools, pool.id == volume.pool_id)
        .outerjoin(clusters, clusters.c.id == pool.cluster_id)
        .outerjoin(pods, pods.c.id == pool.pod_id)
    )


def _filters() -> Filters:
    volume, vm, pool = volumes.c, virtual_machines.c, storage_pools.c
    return {
        "id": by_id(volume.id),
        "ids": by_ids(volume.id),
        "name": same_text(volume.name),
        "keyword": keyword(volume.name, volume.volume_type, volume.state),
        "type": same_text(volume.volume_type),
        "state": same_text(volume.state),
        "virtualmachineid": by_id(volume.vm_id),
        "attached": equal(volume.vm_id.is_not(None)),
        "zoneid": by_id(volume.zone_id),
        "podid": by_id(pool.pod_id),
        "clusterid": by_id(pool.cluster_id),
        "hostid": by_id(vm.host_id),
        "storageid": by_id(volume.pool_id),
        "diskofferingid": by_id(volume.disk_offering_id),
        "serviceofferingid": by_id(volume.service_offering_id),
        "displayvolume": always(True),
        "tags": tagged(VOLUME, volume.id),
    }

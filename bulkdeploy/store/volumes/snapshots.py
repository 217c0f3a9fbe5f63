"""The list query of volume snapshots. ``vm_snapshots`` changes their states."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, case, func, literal, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.virtual_machines.vm_snapshots import SnapshotState
from bulkdeploy.store.resource_tags import SNAPSHOT, add_tags
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    always,
    by_id,
    by_ids,
    filtered,
    id_in,
    keyword,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines, vm_snapshots, volumes

MANUAL, RECURRING, PRIMARY = "MANUAL", "RECURRING", "PRIMARY"
"""CloudStack's words for one that somebody or a policy took, and for where it lies: where its volume does."""

STATES = {
    SnapshotState.CREATING: "Creating",
    SnapshotState.READY: "BackedUp",
    SnapshotState.REVERTING: "BackedUp",
    SnapshotState.EXPUNGING: "Destroying",
    SnapshotState.ERROR: "Error",
}
"""CloudStack's states of snapshots of volumes; clients wait for BackedUp."""


def list_snapshots(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of snapshots of volumes, the newest first."""
    query = _query().where(visibility.condition()).order_by(vm_snapshots.c.id.desc())
    rows, count = fetch_rows(connection, filtered(query, _filters(), arguments), paging)
    add_tags(connection, SNAPSHOT, rows)
    return Page(rows, count)


def snapshot_rows(connection: Connection, snapshot_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response objects of these volume snapshots by internal id. Removed snapshots are omitted."""
    if not snapshot_ids:
        return {}
    rows, _ = fetch_rows(connection, _query().where(id_in(vm_snapshots.c.id, snapshot_ids)), Paging(None))
    found = {row["_id"]: row for row in rows}
    add_tags(connection, SNAPSHOT, rows)
    return found


def _query() -> Select[Any]:
    snapshot, volume, vm = vm_snapshots.c, volumes.c, virtual_machines.c
    kind = func.coalesce(snapshot.interval_type, MANUAL)
    return (
        select(
            snapshot.id.label("_id"),
            snapshot.uuid.label("id"),
            snapshot.display_name.label("name"),
            case({state.value: shown for state, shown in STATES.items()}, value=snapshot.state).label("state"),
            kind.label("snapshottype"),
            kind.label("intervaltype"),
            literal(PRIMARY).label("locationtype"),
            (snapshot.state == SnapshotState.READY.value).label("revertable"),
            volume.size_bytes.label("virtualsize"),
            volume.uuid.label("volumeid"),
            volume.name.label("volumename"),
            volume.volume_type.label("volumetype"),
            volume.state.label("volumestate"),
            vm.uuid.label("virtualmachineid"),
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            snapshot.created,
            *owner_columns(),
            *annotation_columns(Entity.SNAPSHOT),
        )
        .select_from(
            with_owner(vm_snapshots, snapshot.account_id)
            .join(volumes, volume.id == snapshot.volume_id)
            .join(virtual_machines, vm.id == snapshot.vm_id)
            .join(zones, zones.c.id == volume.zone_id)
        )
        .where(snapshot.removed.is_(None))
    )


def _filters() -> Filters:
    snapshot = vm_snapshots.c
    return {
        "id": by_id(snapshot.id),
        "ids": by_ids(snapshot.id),
        "name": same_text(snapshot.display_name),
        "volumeid": by_id(snapshot.volume_id),
        "zoneid": by_id(volumes.c.zone_id),
        "storageid": by_id(volumes.c.pool_id),
        "snapshottype": _of_type,
        "intervaltype": same_text(func.coalesce(snapshot.interval_type, MANUAL)),
        "locationtype": always(PRIMARY),
        "keyword": keyword(snapshot.display_name),
        "tags": tagged(SNAPSHOT, snapshot.id),
    }


def _of_type(written: str) -> Condition:
    interval = vm_snapshots.c.interval_type
    if written.upper() == RECURRING:
        return interval.is_not(None)
    return func.coalesce(interval, MANUAL) == written.upper()

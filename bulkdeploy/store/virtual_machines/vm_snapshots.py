"""Rows of VM snapshots: the list query, and state changes. At most one snapshot of a VM has a job.

A snapshot of a single volume (``volume_id``) is a snapshot of the VM to which the volume is attached. It has no
parent, and is never the current snapshot.
"""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, func, insert, literal, not_, select, text, update

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.virtual_machines.vm_snapshots import SnapshotState
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.resource_tags import VM_SNAPSHOT, add_tags
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Filters,
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


def list_vm_snapshots(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of snapshots, the newest first."""
    query = (
        _query()
        .where(visibility.condition(), vm_snapshots.c.removed.is_(None), vm_snapshots.c.volume_id.is_(None))
        .order_by(vm_snapshots.c.id.desc())
    )
    rows, count = fetch_rows(connection, filtered(query, _filters(), arguments), paging)
    add_tags(connection, VM_SNAPSHOT, rows)
    return Page(rows, count)


def vm_snapshot_rows(connection: Connection, snapshot_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response objects of these snapshots by internal id. Removed snapshots are omitted."""
    if not snapshot_ids:
        return {}
    query = _query().where(id_in(vm_snapshots.c.id, snapshot_ids), vm_snapshots.c.removed.is_(None))
    rows, _ = fetch_rows(connection, query, Paging(None))
    found = {row["_id"]: row for row in rows}
    add_tags(connection, VM_SNAPSHOT, rows)
    return found


def _query() -> Select[Any]:
    snapshot, vm, parent = vm_snapshots.c, virtual_machines.c, vm_snapshots.alias("parent")
    return select(
        snapshot.id.label("_id"),
        snapshot.uuid.label("id"),
        snapshot.name,
        snapshot.display_name.label("displayname"),
        snapshot.description,
        snapshot.state,
        snapshot.snapshot_type.label("type"),
        snapshot.is_current.label("current"),
        snapshot.created,
        parent.c.uuid.label("parent"),
        parent.c.display_name.label("parentName"),
        zones.c.uuid.label("zoneid"),
        zones.c.name.label("zonename"),
        vm.uuid.label("virtualmachineid"),
        vm.display_name.label("virtualmachinename"),
        vm.hypervisor,
        *owner_columns(),
        *annotation_columns(Entity.VM_SNAPSHOT),
    ).select_from(
        with_owner(vm_snapshots, snapshot.account_id)
        .join(virtual_machines, vm.id == snapshot.vm_id)
        .join(zones, zones.c.id == vm.zone_id)
        .outerjoin(parent, parent.c.id == snapshot.parent_id)
    )


def _filters() -> Filters:
    snapshot = vm_snapshots.c
    return {
        "vmsnapshotid": by_id(snapshot.id),
        "vmsnapshotids": by_ids(snapshot.id),
        "virtualmachineid": by_id(snapshot.vm_id),
        "name": same_text(snapshot.display_name),
        "state": same_text(snapshot.state),
        "keyword": keyword(snapshot.name, snapshot.display_name, snapshot.description),
        "tags": tagged(VM_SNAPSHOT, snapshot.id),
    }


def insert_vm_snapshot(
    connection: Connection, prefix: str, display_name: str | None, *, volume_id: int | None = None, **values: Any
) -> EntityRef:
    """Insert a snapshot that a job will take, and return its reference.

    Its name is the prefix followed by the current time. The name is also its default display name.
    """
    moment = func.to_char(func.timezone("UTC", func.now()), "YYYYMMDDHH24MISS")
    name = literal(prefix) + moment
    made = insert(vm_snapshots).values(
        name=name,
        display_name=name if display_name is None else display_name,
        state=SnapshotState.CREATING.value,
        is_current=False,
        volume_id=volume_id,
        **values,
    )
    row = connection.execute(
        made.returning(*(vm_snapshots.c[column] for column in ("id", "uuid", "display_name")))
    ).one()
    entity = Entity.VM_SNAPSHOT if volume_id is None else Entity.SNAPSHOT
    return EntityRef(entity, row.id, row.uuid, row.display_name)


def snapshots_of_vms(connection: Connection, vm_ids: Collection[int]) -> Sequence[Row[Any]]:
    """Return the live snapshots of VMs and of their volumes, ordered by id. The caller has locked the VMs' rows."""
    query = select(vm_snapshots).where(id_in(vm_snapshots.c.vm_id, vm_ids), vm_snapshots.c.removed.is_(None))
    return connection.execute(query.order_by(vm_snapshots.c.id)).all()


def snapshots_of_volumes(
    connection: Connection, vm_ids: Collection[int], volume_ids: Collection[int] | None = None
) -> Sequence[Row[Any]]:
    """Return the live snapshots of single volumes of these VMs, optionally only of these volumes."""
    snapshot = vm_snapshots.c
    query = select(vm_snapshots).where(
        id_in(snapshot.vm_id, vm_ids), snapshot.volume_id.is_not(None), snapshot.removed.is_(None)
    )
    if volume_ids is not None:
        query = query.where(id_in(snapshot.volume_id, volume_ids))
    return connection.execute(query.order_by(snapshot.id)).all()


def snapshots_that_stay(
    connection: Connection, vm_ids: Collection[int], going: Collection[int]
) -> Sequence[Row[Any]]:
    """Return the live snapshots in separately created volumes that are not deleted together with these VMs.

    The volumes ``going`` are deleted with the VMs; their snapshots are not returned.
    """
    snapshot, volume = vm_snapshots.c, volumes.c
    lies_there = select(volume.id).where(
        volume.vm_id == snapshot.vm_id,
        volume.standalone,
        volume.removed.is_(None),
        func.coalesce(snapshot.volume_id, volume.id) == volume.id,
        not_(id_in(volume.id, going)),
    )
    query = select(vm_snapshots).where(
        id_in(snapshot.vm_id, vm_ids), snapshot.removed.is_(None), lies_there.exists()
    )
    return connection.execute(query.order_by(snapshot.id)).all()


def known_vm_snapshot(connection: Connection, snapshot_id: int) -> Row[Any]:
    """Return the row of a snapshot, which must exist but may be removed."""
    return connection.execute(select(vm_snapshots).where(vm_snapshots.c.id == snapshot_id)).one()


def volume_of_snapshot(connection: Connection, snapshot_id: int) -> UUID | None:
    """Return the volume of a snapshot of one volume, or None if the snapshot is of all volumes of a VM.

    The volume is returned even if it has been detached from the VM.
    """
    of_volume = select(volumes.c.uuid).join(vm_snapshots, vm_snapshots.c.volume_id == volumes.c.id)
    return connection.execute(of_volume.where(vm_snapshots.c.id == snapshot_id)).scalar_one_or_none()


def set_snapshot_state(connection: Connection, snapshot_id: int, state: SnapshotState) -> None:
    """Set the state of a snapshot to which a job will revert, or which a job will remove."""
    connection.execute(update(vm_snapshots).where(vm_snapshots.c.id == snapshot_id).values(state=state.value))


def has_unmade_volumes(connection: Connection, vm_id: int) -> bool:
    """Return whether a VM has live volumes that do not exist in a pool yet."""
    volume = volumes.c
    query = select(volume.id).where(volume.vm_id == vm_id, volume.removed.is_(None), volume.state != "Ready")
    return connection.execute(query.limit(1)).first() is not None


_MADE = text(
    "WITH made AS (SELECT n.id, p.id AS parent_id FROM vm_snapshots n"
    "     LEFT JOIN vm_snapshots p ON p.vm_id = n.vm_id AND n.volume_id IS NULL AND p.is_current"
    "       AND p.removed IS NULL"
    "   WHERE n.vm_id = ANY(CAST(:vms AS bigint[])) AND n.removed IS NULL AND n.state = 'Creating'),"
    " before AS (UPDATE vm_snapshots SET is_current = false WHERE id IN (SELECT parent_id FROM made))"
    " UPDATE vm_snapshots s SET state = 'Ready', is_current = volume_id IS NULL, parent_id = made.parent_id"
    " FROM made WHERE s.id = made.id"
)

_REVERTED = text(
    "WITH reverted AS (SELECT id, vm_id, volume_id FROM vm_snapshots"
    "   WHERE vm_id = ANY(CAST(:vms AS bigint[])) AND removed IS NULL AND state = 'Reverting')"
    " UPDATE vm_snapshots s SET is_current = CASE WHEN r.volume_id IS NULL THEN s.id = r.id ELSE s.is_current END,"
    "   state = CASE WHEN s.id = r.id THEN 'Ready' ELSE s.state END"
    " FROM reverted r WHERE s.vm_id = r.vm_id AND (s.is_current OR s.id = r.id)"
)

_GONE = text(
    "WITH gone AS (UPDATE vm_snapshots SET removed = now(), is_current = false"
    "     WHERE vm_id = ANY(CAST(:vms AS bigint[])) AND removed IS NULL AND state = 'Expunging'"
    "     RETURNING id, parent_id)"
    " UPDATE vm_snapshots c SET parent_id = gone.parent_id FROM gone WHERE c.parent_id = gone.id"
)

_PARENT_IS_CURRENT = text(
    "UPDATE vm_snapshots p SET is_current = true FROM vm_snapshots s WHERE p.id = s.parent_id AND s.is_current"
    "   AND s.vm_id = ANY(CAST(:vms AS bigint[])) AND s.removed IS NULL AND s.state = 'Expunging'"
)

_BECOME = text(
    "UPDATE vm_snapshots SET state = :after"
    " WHERE vm_id = ANY(CAST(:vms AS bigint[])) AND removed IS NULL AND state = :before"
)


def end_creation(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Record that the snapshots of these VMs' jobs exist. Each becomes current, and the previous one its parent."""
    connection.execute(_MADE, {"vms": int_array(vm_ids)})


def end_revert(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Mark the snapshots to which jobs of these VMs reverted as Ready.

    A snapshot of a whole VM also becomes the VM's current snapshot.
    """
    connection.execute(_REVERTED, {"vms": int_array(vm_ids)})


def end_removal(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Mark snapshots that jobs of these VMs deleted as removed. Their children become children of their parents."""
    vms = {"vms": int_array(vm_ids)}
    for statement in (_PARENT_IS_CURRENT, _GONE):
        connection.execute(statement, vms)


def fail_creation(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Set the state Error for snapshots that jobs of these VMs failed to create.

    Such a snapshot can be deleted, but a VM cannot be reverted to it.
    """
    _become(connection, vm_ids, SnapshotState.CREATING, SnapshotState.ERROR)


def fail_revert(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Set the state Ready again for the snapshots to which jobs of these VMs failed to revert."""
    _become(connection, vm_ids, SnapshotState.REVERTING, SnapshotState.READY)


def fail_removal(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Set the state Error for snapshots that jobs of these VMs failed to remove.

    Parts of such a snapshot may be missing, and the removal can be repeated.
    """
    _become(connection, vm_ids, SnapshotState.EXPUNGING, SnapshotState.ERROR)


def _become(connection: Connection, vm_ids: Sequence[int], before: SnapshotState, after: SnapshotState) -> None:
    states = {"before": before.value, "after": after.value}
    connection.execute(_BECOME, {"vms": int_array(vm_ids), **states})

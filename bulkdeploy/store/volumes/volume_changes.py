"""Rows of data volumes: insert, attach, detach and delete."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, text, update

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import PoolScope, StorageType, VolumeType
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.tables.offerings import disk_offerings, service_offerings
from bulkdeploy.store.tables.topology import storage_pools
from bulkdeploy.store.tables.virtual_machines import virtual_machines, volumes

ALLOCATED, ATTACHING, READY = "Allocated", "Attaching", "Ready"
"""States: it exists nowhere; its VM's guest does not have it yet; it exists where its pool is."""


def insert_volume(connection: Connection, **values: Any) -> EntityRef:
    """Insert a separate data volume, which is in no storage pool yet, and return its reference."""
    made = insert(volumes).values(volume_type=VolumeType.DATADISK.value, state=ALLOCATED, standalone=True, **values)
    row = connection.execute(made.returning(volumes.c.id, volumes.c.uuid)).one()
    return EntityRef(Entity.VOLUME, row.id, row.uuid, values["name"])


def take_volume(connection: Connection, volume_id: int) -> Row[Any] | None:
    """Lock a live volume until the transaction ends and return its row, or None if it does not exist."""
    take_lock(connection, Lock.VOLUME, volume_id)
    return read_volume(connection, volume_id)


def read_volume(connection: Connection, volume_id: int) -> Row[Any] | None:
    """Return the row of a live volume without locking it, or None if it does not exist."""
    return connection.execute(select(volumes).where(volumes.c.id == volume_id, volumes.c.removed.is_(None))).first()


def read_vm(connection: Connection, vm_id: int) -> Row[Any]:
    """Return a VM's row without locking it."""
    return connection.execute(select(virtual_machines).where(virtual_machines.c.id == vm_id)).one()


def known_volume(connection: Connection, volume_id: int) -> Row[Any]:
    """Return the row of a volume without locking it. The volume must exist but may be removed."""
    return connection.execute(select(volumes).where(volumes.c.id == volume_id)).one()


_HAS_JOB = text(
    "SELECT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = :vm AND j.instance_type = 'VirtualMachine'"
    "   AND j.status + 0 = 0 AND CAST(j.params ->> 'volume_id' AS bigint) = :volume)"
)


def has_job_of_volume(connection: Connection, vm_id: int, volume_id: int) -> bool:
    """Return whether an unfinished job of a VM, whose row the caller has locked, changes this volume."""
    return bool(connection.execute(_HAS_JOB, {"vm": vm_id, "volume": volume_id}).scalar_one())


def volume_at(connection: Connection, vm_id: int, device_id: int) -> EntityRef | None:
    """Return the VM's live volume with this device number, or None if there is none."""
    query = select(volumes.c.id, volumes.c.uuid, volumes.c.name).where(
        volumes.c.vm_id == vm_id, volumes.c.device_id == device_id, volumes.c.removed.is_(None)
    )
    row = connection.execute(query.order_by(volumes.c.id)).first()
    return None if row is None else EntityRef(Entity.VOLUME, row.id, row.uuid, row.name)


def devices_of(connection: Connection, vm_id: int) -> set[int]:
    """Return the device numbers of the VM's live volumes. The caller has locked the VM's row."""
    query = select(volumes.c.device_id).where(volumes.c.vm_id == vm_id, volumes.c.removed.is_(None))
    return {number for number in connection.execute(query).scalars() if number is not None}


def storage_of(connection: Connection, disk_offering_id: int) -> tuple[StorageType, frozenset[str]]:
    """Return the storage type and the storage tags that a disk offering requires of pools."""
    offering = disk_offerings.c
    query = select(offering.storage_type, offering.storage_tags).where(offering.id == disk_offering_id)
    row = connection.execute(query).one()
    return StorageType(row.storage_type), frozenset(row.storage_tags)


def has_fixed_root_disk(connection: Connection, service_offering_id: int) -> bool:
    """Return whether a service offering determines the size of root disks."""
    offering = service_offerings.c
    query = select(offering.root_disk_gib).where(offering.id == service_offering_id)
    return connection.execute(query).scalar_one() is not None


def is_out_of_reach(connection: Connection, pool_id: int, vm: Row[Any]) -> bool:
    """Return whether no host could run the VM with a volume in this pool, given the VM's host and other volumes."""
    pool = storage_pools.c
    query = select(pool.scope, pool.cluster_id, pool.host_id, pool.hypervisor).where(pool.id == pool_id)
    mine = connection.execute(query).one()
    if mine.scope == PoolScope.ZONE:
        return mine.hypervisor not in (None, vm.hypervisor)
    others = connection.execute(
        select(pool.scope, pool.cluster_id, pool.host_id)
        .join(volumes, volumes.c.pool_id == pool.id)
        .where(volumes.c.vm_id == vm.id, volumes.c.removed.is_(None), pool.scope != PoolScope.ZONE.value)
    ).all()
    clusters = {other.cluster_id for other in others} | ({vm.cluster_id} if vm.host_id is not None else set())
    hosts = {other.host_id for other in others if other.scope == PoolScope.HOST}
    hosts |= {vm.host_id} if vm.host_id is not None else set()
    return bool(clusters - {mine.cluster_id}) or (mine.scope == PoolScope.HOST and bool(hosts - {mine.host_id}))


def update_volume(connection: Connection, volume_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of a volume that do not depend on its VM or its pool."""
    if values:
        connection.execute(update(volumes).where(volumes.c.id == volume_id).values(**values))


def change_volume(
    connection: Connection, volume: Row[Any], values: Mapping[str, Any], *, vm_id: int | None
) -> bool:
    """Update a live volume if its pool, state and VM are still those of ``volume``, else return False.

    ``vm_id`` is the VM to which the volume is attached.
    """
    column = volumes.c
    changed = update(volumes).where(
        column.id == volume.id,
        column.removed.is_(None),
        column.vm_id.is_not_distinct_from(vm_id),
        column.pool_id.is_not_distinct_from(volume.pool_id),
        column.state == volume.state,
    )
    return connection.execute(changed.values(**values)).rowcount == 1


def attached_to(vm_id: int, device_id: int, pool_id: int | None, state: str) -> dict[str, Any]:
    """Return the column values of a volume that is attached to a VM."""
    attached = func.now() if state == READY else None
    return {"vm_id": vm_id, "device_id": device_id, "pool_id": pool_id, "state": state, "attached": attached}


def detached(volume: Row[Any]) -> dict[str, Any]:
    """Return the column values of a volume that is detached from its VM.

    A volume in state Attaching becomes Ready, because it may exist in its pool already.
    """
    state = READY if volume.state == ATTACHING else volume.state
    return {"vm_id": None, "device_id": None, "attached": None, "standalone": True, "state": state}

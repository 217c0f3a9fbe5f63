"""Data volumes made, attached, detached and deleted: rows, and a place for one that a running VM gets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Connection, Row, Text, cast, func, insert, or_, select, text, update

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.topology import PoolScope, StorageType, VolumeType
from bulkdeploy.store.configuration import Configuration
from bulkdeploy.store.ledger import claim_pools
from bulkdeploy.store.tables.offerings import disk_offerings
from bulkdeploy.store.tables.topology import storage_pools
from bulkdeploy.store.tables.virtual_machines import virtual_machines, volumes

ALLOCATED, ATTACHING, READY = "Allocated", "Attaching", "Ready"
"""States: it exists nowhere; its VM's guest does not have it yet; it exists where its pool is."""

VOLUME_LOCK_SPACE = 4204
"""First key of the advisory locks of volumes; the second is the volume's id."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pool that has room for a volume; ``limit_bytes``: what it may promise."""

    pool_id: int
    limit_bytes: int


def insert_volume(connection: Connection, **values: Any) -> EntityRef:
    """Write a data volume of its own, which has no place yet."""
    made = insert(volumes).values(volume_type=VolumeType.DATADISK.value, state=ALLOCATED, standalone=True, **values)
    row = connection.execute(made.returning(volumes.c.id, volumes.c.uuid)).one()
    return EntityRef(Entity.VOLUME, row.id, row.uuid, values["name"])


def take_volume(connection: Connection, volume_id: int) -> Row[Any] | None:
    """The live volume, which no other call here changes before the transaction ends.

    By an advisory lock: its row is locked after pools and VMs (ADR 5), and too late to choose a pool by it.
    """
    connection.execute(
        text("SELECT pg_advisory_xact_lock(:space, :volume)"), {"space": VOLUME_LOCK_SPACE, "volume": volume_id}
    )
    return read_volume(connection, volume_id)


def read_volume(connection: Connection, volume_id: int) -> Row[Any] | None:
    """The live volume, which others may change."""
    return connection.execute(select(volumes).where(volumes.c.id == volume_id, volumes.c.removed.is_(None))).first()


def read_vm(connection: Connection, vm_id: int) -> Row[Any]:
    """A VM's row, not locked."""
    return connection.execute(select(virtual_machines).where(virtual_machines.c.id == vm_id)).one()


def known_volume(connection: Connection, volume_id: int) -> Row[Any]:
    """A volume's row, not locked, of a removed one too."""
    return connection.execute(select(volumes).where(volumes.c.id == volume_id)).one()


def volume_at(connection: Connection, vm_id: int, device_id: int) -> EntityRef | None:
    """The VM's volume with this device number."""
    query = select(volumes.c.id, volumes.c.uuid, volumes.c.name).where(
        volumes.c.vm_id == vm_id, volumes.c.device_id == device_id, volumes.c.removed.is_(None)
    )
    row = connection.execute(query.order_by(volumes.c.id)).first()
    return None if row is None else EntityRef(Entity.VOLUME, row.id, row.uuid, row.name)


def devices_of(connection: Connection, vm_id: int) -> set[int]:
    """Device numbers that the VM's volumes have; its row is locked by the caller."""
    query = select(volumes.c.device_id).where(volumes.c.vm_id == vm_id, volumes.c.removed.is_(None))
    return {number for number in connection.execute(query).scalars() if number is not None}


def find_place(
    connection: Connection, configuration: Configuration, volume: Row[Any], vm: Row[Any]
) -> Place | None:
    """The emptiest pool that the VM's host reaches and that serves the volume's disk offering, if any."""
    pool, offering = storage_pools.c, disk_offerings.c
    kind = connection.execute(
        select(offering.storage_type, offering.storage_tags).where(offering.id == volume.disk_offering_id)
    ).one()
    shared = or_(
        (pool.scope == PoolScope.ZONE.value) & or_(pool.hypervisor.is_(None), pool.hypervisor == vm.hypervisor),
        (pool.scope == PoolScope.CLUSTER.value) & (pool.cluster_id == vm.cluster_id),
    )
    local = (pool.scope == PoolScope.HOST.value) & (pool.host_id == vm.host_id)
    is_local = kind.storage_type == StorageType.LOCAL
    query = select(pool.id, pool.capacity_bytes, pool.allocated_bytes).where(
        pool.zone_id == vm.zone_id,
        pool.removed.is_(None),
        pool.state == "Up",
        pool.tags.op("@>")(cast(kind.storage_tags, ARRAY(Text))),
        local if is_local else shared,
    )
    places = []
    for row in connection.execute(query):
        limit = _limit(configuration, row.id, row.capacity_bytes, is_local=is_local)
        room = limit - row.allocated_bytes
        if room >= volume.size_bytes:
            places.append((-room, row.id, limit))
    return Place(min(places)[1], min(places)[2]) if places else None


def claim_place(connection: Connection, volume: Row[Any], place: Place) -> None:
    """Claim the place's room for the volume.

    Raises:
        TransactionConflict: the room is gone.
    """
    limits = {place.pool_id: place.limit_bytes}
    claim_pools(connection, limits, [place.pool_id], [volume.size_bytes], [volume.uuid])


def _limit(configuration: Configuration, pool_id: int, capacity_bytes: int, *, is_local: bool) -> int:
    """What a pool may promise, as ``store.snapshot`` reckons it."""
    factor = configuration.decimal("storage.overprovisioning.factor", Scope.STORAGE_POOL, pool_id)
    share = configuration.decimal("pool.storage.allocated.capacity.disablethreshold", Scope.STORAGE_POOL, pool_id)
    return math.floor(capacity_bytes * (1.0 if is_local else factor) * share)


def is_out_of_reach(connection: Connection, pool_id: int, vm: Row[Any]) -> bool:
    """Whether the VM could not run with a volume in this pool: where it runs, or where its other volumes are.

    A zone-wide pool may be for the hosts of one hypervisor type only.
    """
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


def change_volume(
    connection: Connection, volume: Row[Any], values: Mapping[str, Any], *, vm_id: int | None
) -> bool:
    """Change a live volume that is still as it was seen, with its pool and state, at ``vm_id``; else False."""
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
    """Columns of a volume that a VM gets."""
    attached = func.now() if state == READY else None
    return {"vm_id": vm_id, "device_id": device_id, "pool_id": pool_id, "state": state, "attached": attached}


def detached(volume: Row[Any]) -> dict[str, Any]:
    """Columns of a volume that no VM has any more; one whose guest was to get it may be on its pool."""
    state = READY if volume.state == ATTACHING else volume.state
    return {"vm_id": None, "device_id": None, "attached": None, "standalone": True, "state": state}

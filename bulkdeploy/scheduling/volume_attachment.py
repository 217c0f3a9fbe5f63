"""Attaching and detaching data volumes: rules, capacity and rows, for calls and for jobs."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import InvalidParameter, ResourceUnavailable
from bulkdeploy.domain.infrastructure.topology import StorageType, VolumeType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.placement.model import Disk
from bulkdeploy.placement.rules import storage
from bulkdeploy.placement.storage.pool_choice import emptiest_pool
from bulkdeploy.scheduling.reasons import why_not
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.ledger.ledger import claim_pools, release_pools_of
from bulkdeploy.store.ledger.snapshot import read_snapshot
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row
from bulkdeploy.store.volumes import volume_changes as store

LAST_DEVICE = 63
"""Device 0 is the root disk's."""


def attach(connection: Connection, volume: Row[Any], vm_id: int, device_id: int | None) -> Row[Any]:
    """Attach a data volume, whose row the caller has locked (``take_volume``), to a VM.

    Returns the row of the VM as it was before, locked. If the volume is in no pool and the VM runs, a pool that the
    VM's host uses is claimed; otherwise a pool is claimed when the VM starts. The volume of a running VM is
    Attaching until the guest has the volume.

    Raises:
        InvalidParameter: the volume is attached already or has another owner or zone, the VM cannot access its
            pool, or the device number is already used.
        ResourceUnavailable: no pool that the VM's host can access has enough free capacity.
        TransactionConflict: a concurrent transaction changed the volume or the VM; the whole transaction must be
            repeated.
    """
    check_free(volume)
    seen = read_vm_row(connection, vm_id)
    _check_pair(volume, seen)
    pool_id = _place(connection, volume, seen)
    row = lock_vm(connection, vm_id)
    if (row.host_id, row.state, row.account_id) != (seen.host_id, seen.state, seen.account_id):
        raise TransactionConflict
    _check_reach(connection, volume, row)
    number = _device(store.devices_of(connection, vm_id), device_id)
    state = store.ATTACHING if row.state == VmState.RUNNING else volume.state
    if not store.change_volume(connection, volume, store.attached_to(vm_id, number, pool_id, state), vm_id=None):
        raise TransactionConflict
    return row


def check_free(volume: Row[Any]) -> None:
    """Check that a volume can be attached to a VM.

    Raises:
        InvalidParameter: the volume is attached already, or is not a data volume.
    """
    if volume.vm_id is not None or volume.volume_type != VolumeType.DATADISK:
        raise InvalidParameter("id", str(volume.uuid), "it must be a data volume that is not attached to a VM")


def check_deletable(volume: Row[Any], parameter: str) -> None:
    """Check that a volume is not protected against deletion.

    Raises:
        InvalidParameter: the volume is protected. The error names ``parameter``.
    """
    if volume.delete_protection:
        named = f"Volume [id = {volume.uuid}, name = {volume.name}]"
        rule = f"{named} has delete protection enabled and cannot be deleted."
        raise InvalidParameter(parameter, str(volume.uuid), rule)


def detach(connection: Connection, volume: Row[Any]) -> None:
    """Detach a volume, whose row the caller has locked, from its VM.

    The VM does not run, or its guest no longer has the volume.

    Raises:
        TransactionConflict: a concurrent transaction changed the volume; the whole transaction must be repeated.
    """
    if not store.change_volume(connection, volume, store.detached(volume), vm_id=volume.vm_id):
        raise TransactionConflict


def undo_attachment(connection: Connection, volume: Row[Any], *, state: str, has_place: bool) -> None:
    """Restore a volume's row to its values before the volume was attached.

    Without ``has_place``, the volume is in no pool afterwards.

    Raises:
        TransactionConflict: a concurrent transaction changed the volume; the whole transaction must be repeated.
    """
    before = {**store.detached(volume), "state": state}
    if not has_place:
        release_pools_of(connection, [volume.uuid])
        before["pool_id"] = None
    if not store.change_volume(connection, volume, before, vm_id=volume.vm_id):
        raise TransactionConflict


def _check_pair(volume: Row[Any], vm: Row[Any]) -> None:
    if vm.account_id != volume.account_id:
        raise InvalidParameter("virtualmachineid", str(vm.uuid), "volume and VM must belong to the same account")
    if vm.zone_id != volume.zone_id:
        raise InvalidParameter("virtualmachineid", str(vm.uuid), "volume and VM must be in the same zone")


def _place(connection: Connection, volume: Row[Any], vm: Row[Any]) -> int | None:
    """Return the pool of a volume. If the volume is in no pool and the VM runs, a pool is claimed.

    Returns None if the VM does not run and the volume is in no pool yet.
    """
    if volume.pool_id is not None:
        return int(volume.pool_id)
    if vm.host_id is None:
        return None
    storage_type, tags = store.storage_of(connection, volume.disk_offering_id)
    snapshot = read_snapshot(
        connection,
        vm.zone_id,
        owners_by_id(connection, [vm.account_id])[vm.account_id],
        read_configuration(connection),
        with_tags=False,
        with_local_storage=storage_type is StorageType.LOCAL,
        with_owner_hosts=False,
    )
    disk = Disk(volume.size_bytes, storage_type, tags)
    pool_id = emptiest_pool(snapshot, disk, vm.host_id, vm.hypervisor)
    if pool_id is None:
        why = why_not(storage.RULE.reason)
        raise ResourceUnavailable(
            f"No storage pool that the host of VM {vm.uuid} reaches has room for volume {volume.uuid}: {why}"
        )
    limits = dict(zip(snapshot.pools.id.tolist(), snapshot.pools.limit.tolist(), strict=True))
    claim_pools(connection, limits, [pool_id], [volume.size_bytes], [volume.uuid])
    return pool_id


def _check_reach(connection: Connection, volume: Row[Any], vm: Row[Any]) -> None:
    """Raise an error if the VM cannot access the volume's pool.

    The row of the VM is locked, so two volumes cannot be attached at the same time without this check seeing both.
    """
    if volume.pool_id is not None and store.is_out_of_reach(connection, volume.pool_id, vm):
        raise InvalidParameter("id", str(volume.uuid), "the VM's host cannot use the storage pool of the volume")


def _device(taken: Collection[int], requested: int | None) -> int:
    """Return the requested device number, or the lowest free one if none is requested."""
    free = [number for number in range(1, LAST_DEVICE + 1) if number not in taken]
    if requested is None and free:
        return free[0]
    if requested is None or requested not in free:
        raise InvalidParameter(
            "deviceid", requested, f"it must be a number from 1 to {LAST_DEVICE} that no volume of the VM has"
        )
    return requested

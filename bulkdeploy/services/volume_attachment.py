"""Volumes attached to VMs and detached (reference section 8.17)."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceUnavailable
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import VolumeType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.volumes import about, owned_volume, ticket
from bulkdeploy.store import volume_changes as store
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.engine import TransactionConflict, run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.guests import lock_vm

SETTLED = frozenset({VmState.RUNNING, VmState.STOPPED})
LAST_DEVICE = 63
"""Device 0 is the root disk's."""


def attach_volume(
    system: System, caller: Caller, ref: EntityRef, vm: EntityRef, device_id: int | None
) -> JobTicket:
    """Give a data volume to a VM of its owner; the job's result is the volume.

    A volume without a place gets one that the VM's host reaches, if it runs; else when it starts.

    Raises:
        InvalidParameter: a VM has the volume, the VM is in no state for it, of another owner or zone, or can
            not reach the volume's pool; or the device number is taken.
        PermissionDenied: volume or VM are not the caller's to touch.
        ResourceUnavailable: no pool that the VM's host reaches has room.
    """

    def work(connection: Connection) -> JobTicket:
        volume, owner = owned_volume(connection, caller, ref)
        if volume.vm_id is not None or volume.volume_type != VolumeType.DATADISK:
            raise InvalidParameter("id", str(ref.uuid), "it should be a data volume that no VM has")
        seen = store.read_vm(connection, vm.id)
        require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
        _check_pair(volume, seen, vm)
        pool_id = _place(connection, volume, seen)
        row = _settled(connection, vm.id)
        if row.host_id != seen.host_id:
            raise TransactionConflict
        number = _device(store.devices_of(connection, vm.id), device_id)
        state = store.READY if pool_id is not None else store.ALLOCATED
        if not store.change_volume(
            connection, volume, store.attached_to(vm.id, number, pool_id, state), vm_id=None
        ):
            raise TransactionConflict
        text = f"attached volume {volume.name} to Vm {row.name} as device {number}"
        record_event(connection, caller, EventType.VOLUME_ATTACH, text, about(ref), owner)
        return ticket(connection, caller, ref, "AttachVolume")

    return run_transaction(system.engine, work)


def detach_volume(
    system: System, caller: Caller, ref: EntityRef | None, vm: EntityRef | None, device_id: int | None
) -> JobTicket:
    """Take a data volume from its VM: by its id, or by VM and device number; the job's result is the volume.

    Raises:
        InvalidParameter: there is no such volume, no VM has it, or the VM is in no state for it.
        PermissionDenied: the volume, or the VM named, is not the caller's to touch.
    """

    def work(connection: Connection) -> JobTicket:
        found = ref
        if found is None and vm is not None and device_id is not None:
            seen = store.read_vm(connection, vm.id)
            require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
            found = store.volume_at(connection, vm.id, device_id)
        if found is None:
            raise InvalidParameter("deviceid", device_id, "the VM has no volume with this device number")
        volume, owner = owned_volume(connection, caller, found)
        if volume.vm_id is None or volume.volume_type != VolumeType.DATADISK:
            raise InvalidParameter("id", str(found.uuid), "it should be a data volume that a VM has")
        row = _settled(connection, volume.vm_id)
        if not store.change_volume(connection, volume, store.DETACHED, vm_id=row.id):
            raise TransactionConflict
        text = f"detached volume {volume.name} from Vm {row.name}"
        record_event(connection, caller, EventType.VOLUME_DETACH, text, about(found), owner)
        return ticket(connection, caller, found, "DetachVolume")

    return run_transaction(system.engine, work)


def _check_pair(volume: Row[Any], vm: Row[Any], ref: EntityRef) -> None:
    if vm.account_id != volume.account_id:
        raise InvalidParameter("virtualmachineid", str(ref.uuid), "volume and VM should belong to one account")
    if vm.zone_id != volume.zone_id:
        raise InvalidParameter("virtualmachineid", str(ref.uuid), "volume and VM should be in one zone")


def _place(connection: Connection, volume: Row[Any], vm: Row[Any]) -> int | None:
    """The pool that the volume is in, or gets now because the VM runs; None: it gets one when the VM starts."""
    if volume.pool_id is not None:
        if store.is_out_of_reach(connection, volume.pool_id, vm):
            raise InvalidParameter("id", str(volume.uuid), "its storage pool is out of the VM's reach")
        return int(volume.pool_id)
    if vm.host_id is None:
        return None
    place = store.find_place(connection, read_configuration(connection), volume, vm)
    if place is None:
        raise ResourceUnavailable(
            f"No storage pool that the host of VM {vm.uuid} reaches has room for volume {volume.uuid}"
        )
    store.claim_place(connection, volume, place)
    return place.pool_id


def _settled(connection: Connection, vm_id: int) -> Row[Any]:
    """The VM's row, locked, if it is Running or Stopped and no job works on it."""
    row = lock_vm(connection, vm_id)
    if row.removed or row.has_job or VmState(row.state) not in SETTLED:
        state = "expunged" if row.removed else "worked on by another job" if row.has_job else row.state
        raise InvalidParameter("virtualmachineid", str(row.uuid), f"it is {state}; it should be Running or Stopped")
    return row


def _device(taken: Collection[int], asked: int | None) -> int:
    """The device number asked for, or the lowest free one."""
    free = [number for number in range(1, LAST_DEVICE + 1) if number not in taken]
    if asked is None and free:
        return free[0]
    if asked is None or asked not in free:
        raise InvalidParameter(
            "deviceid", asked, f"it should be a number from 1 to {LAST_DEVICE} that no volume of the VM has"
        )
    return asked

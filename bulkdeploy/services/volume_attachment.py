"""Volumes attached to VMs and detached (reference section 8.17)."""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import JobKind, command_class
from bulkdeploy.domain.topology import VolumeType
from bulkdeploy.scheduling.volume_attachment import attach, check_free, detach
from bulkdeploy.services.device_changes import DEVICE_STATES, is_changed_now
from bulkdeploy.services.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines import Action, submit
from bulkdeploy.services.volumes import about, owned_volume, volume_row
from bulkdeploy.store import volume_changes as store
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.guests import lock_vm

OF_VM = "virtualmachineid"
ATTACH = Action(JobKind.ATTACH_VOLUME, EventType.VOLUME_ATTACH, "attach a volume to", DEVICE_STATES, OF_VM)
DETACH = Action(JobKind.DETACH_VOLUME, EventType.VOLUME_DETACH, "detach a volume from", DEVICE_STATES, OF_VM)


def attach_volume(
    system: System, caller: Caller, ref: EntityRef, vm: EntityRef, device_id: int | None
) -> JobTicket:
    """Give a data volume to a VM of its owner, and to its guest if it runs; the job's result is the volume.

    A volume without a place gets one that the VM's host reaches, if it runs; else when it starts.

    Raises:
        InvalidParameter: a VM has the volume, the VM is in no state for it, of another owner or zone, or can
            not reach the volume's pool; or the device number is taken.
        PermissionDenied: volume or VM are not the caller's to touch.
        ResourceUnavailable: no pool that the VM's host reaches has room.
    """

    def work(connection: Connection) -> JobTicket | None:
        volume, _ = owned_volume(connection, caller, ref)
        check_free(volume)
        seen = store.read_vm(connection, vm.id)
        require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
        change = partial(attach, connection, volume, vm.id, device_id)
        if not is_changed_now(connection, vm, seen.account_id, change):
            return None
        return _done(connection, caller, ref, ATTACH, f"attached volume {volume.name} to Vm {seen.name}")

    params = {"volume_id": ref.id, "volume_uuid": str(ref.uuid), "device_id": device_id}
    return run_transaction(system.engine, work) or submit(system, caller, vm, ATTACH, params)


def detach_volume(
    system: System, caller: Caller, ref: EntityRef | None, vm: EntityRef | None, device_id: int | None
) -> JobTicket:
    """Take a data volume from its VM: by its id, or by VM and device number; the job's result is the volume.

    While the VM runs nobody else gets the volume before its guest has lost it.

    Raises:
        InvalidParameter: there is no such volume, no VM has it, or the VM is in no state for it.
        PermissionDenied: the volume, or the VM named, is not the caller's to touch.
    """

    def work(connection: Connection) -> JobTicket | tuple[EntityRef, EntityRef]:
        found = ref
        if found is None and vm is not None and device_id is not None:
            seen = store.read_vm(connection, vm.id)
            require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
            found = store.volume_at(connection, vm.id, device_id)
        if found is None:
            raise InvalidParameter("deviceid", device_id, "the VM has no volume with this device number")
        volume, _ = owned_volume(connection, caller, found)
        if volume.vm_id is None or volume.volume_type != VolumeType.DATADISK:
            raise InvalidParameter("id", str(found.uuid), "it should be a data volume that a VM has")
        seen = store.read_vm(connection, volume.vm_id)
        owner_vm = EntityRef(Entity.VIRTUAL_MACHINE, seen.id, seen.uuid, seen.name)

        def change() -> Row[Any]:
            row = lock_vm(connection, seen.id)
            detach(connection, volume)
            return row

        if not is_changed_now(connection, owner_vm, seen.account_id, change):
            return found, owner_vm
        return _done(connection, caller, found, DETACH, f"detached volume {volume.name} from Vm {seen.name}")

    done = run_transaction(system.engine, work)
    if isinstance(done, JobTicket):
        return done
    volume, of_vm = done
    params = {"volume_id": volume.id, "volume_uuid": str(volume.uuid)}
    return submit(system, caller, of_vm, DETACH, params)


def _done(connection: Connection, caller: Caller, ref: EntityRef, action: Action, text: str) -> JobTicket:
    """The event, and the ticket of a job that is done; its result is the volume."""
    owner = owned_volume(connection, caller, ref)[1]
    record_event(connection, caller, action.event_type, text, about(ref), owner)
    cmd = command_class(action.kind, is_root_admin=caller.is_root_admin)
    return done_with_object(connection, caller, cmd, "volume", volume_row(connection, caller, ref), about(ref))

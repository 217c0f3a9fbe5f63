"""Operations that attach volumes to VMs and detach them."""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.infrastructure.topology import VolumeType
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.volumes.attach_volume import ATTACH_VOLUME
from bulkdeploy.provisioning.kinds.volumes.detach_volume import DETACH_VOLUME
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots_of_volumes
from bulkdeploy.scheduling.volume_attachment import attach, check_free, detach
from bulkdeploy.services.abilities import require_ability, require_device_parameters
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.device_changes import is_changed_now
from bulkdeploy.services.virtual_machines.virtual_machines import submit
from bulkdeploy.services.volumes.volumes import owned_volume, volume_reference, volume_row
from bulkdeploy.store.deployments.deployment_facts import read_disk_offering
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.volumes import volume_changes as store

OF_VM = "virtualmachineid"


def attach_volume(
    connection: Connection,
    system: System,
    caller: Caller,
    ref: EntityRef,
    vm: EntityRef,
    device_id: int | None,
) -> JobTicket:
    """Attach a data volume to a VM of its owner, and to the guest if the VM runs; the job's result is the volume.

    A volume without a pool is placed in a pool that the VM's host can access, or at the VM's next start if it is
    stopped.

    Raises:
        InvalidParameter: the volume is attached already, the VM's state does not allow the operation, the VM has
            another owner or zone, cannot access the volume's pool, or its hypervisor does not support data volumes,
            or the device number is already used.
        PermissionDenied: the caller may not access the volume or the VM.
        ResourceUnavailable: no pool that the VM's host can access has enough free capacity.
    """
    volume, _ = owned_volume(connection, caller, ref)
    check_free(volume)
    seen = store.read_vm(connection, vm.id)
    require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
    require_ability(system.drivers, seen.hypervisor, DataVolumes, OF_VM, str(vm.uuid))
    offering = None if volume.disk_offering_id is None else read_disk_offering(connection, volume.disk_offering_id)
    if offering is not None:
        require_device_parameters(system.drivers, seen.hypervisor, offering.details, "id", str(ref.uuid))
    change = partial(attach, connection, volume, vm.id, device_id)
    if is_changed_now(connection, ATTACH_VOLUME, vm, seen.account_id, change):
        return finished_volume_job(
            connection, caller, ref, ATTACH_VOLUME, f"attached volume {volume.name} to Vm {seen.name}"
        )
    params = {"volume_id": ref.id, "volume_uuid": str(ref.uuid), "device_id": device_id}
    return submit(connection, system, caller, vm, ATTACH_VOLUME, params, parameter=OF_VM)


def detach_volume(
    connection: Connection,
    system: System,
    caller: Caller,
    ref: EntityRef | None,
    vm: EntityRef | None,
    device_id: int | None,
) -> JobTicket:
    """Detach a data volume from its VM; the job's result is the volume.

    The volume is named by its id, or by VM and device number. If the VM runs, the volume cannot be attached to
    another VM before the guest has lost it.

    Raises:
        InvalidParameter: there is no such volume, the volume is not attached to a VM, it has snapshots, or the VM's
            state does not allow the operation.
        PermissionDenied: the caller may not access the volume or the named VM.
    """
    if ref is None and vm is not None and device_id is not None:
        seen = store.read_vm(connection, vm.id)
        require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
        ref = store.volume_at(connection, vm.id, device_id)
    if ref is None:
        raise InvalidParameter("deviceid", device_id, "the VM has no volume with this device number")
    volume, _ = owned_volume(connection, caller, ref)
    if volume.vm_id is None or volume.volume_type != VolumeType.DATADISK:
        raise InvalidParameter("id", str(ref.uuid), "it must be a data volume that is attached to a VM")
    seen = store.read_vm(connection, volume.vm_id)
    of_vm = EntityRef(Entity.VIRTUAL_MACHINE, seen.id, seen.uuid, seen.name)

    def check(connection: Connection, row: Row[Any]) -> None:
        check_no_snapshots_of_volumes(connection, row.id, "id", ref.uuid, volume_id=ref.id)

    def change() -> Row[Any]:
        row = lock_vm(connection, seen.id)
        check(connection, row)
        detach(connection, volume)
        return row

    if is_changed_now(connection, DETACH_VOLUME, of_vm, seen.account_id, change):
        return finished_volume_job(
            connection, caller, ref, DETACH_VOLUME, f"detached volume {volume.name} from Vm {seen.name}"
        )
    params = {"volume_id": ref.id, "volume_uuid": str(ref.uuid)}
    return submit(connection, system, caller, of_vm, DETACH_VOLUME, params, check, parameter=OF_VM)


def finished_volume_job(
    connection: Connection, caller: Caller, ref: EntityRef, kind: JobKind, text: str
) -> JobTicket:
    """Record the event of a changed volume, and return the ticket of a finished job whose result is the volume."""
    owner = owned_volume(connection, caller, ref)[1]
    record_event(connection, caller, kind.event_type, text, volume_reference(ref), owner)
    cmd = kind.cmd(is_root_admin=caller.is_root_admin)
    return done_with_object(
        connection, caller, cmd, "volume", volume_row(connection, caller, ref), volume_reference(ref)
    )

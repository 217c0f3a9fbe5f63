"""Operations that attach ISOs to VMs and detach them.

If the VM runs, a job changes the drive of its guest. The guest of a stopped VM gets the ISO when it starts, and
boots from the ISO if its root disk is not bootable.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.attach_iso import ATTACH_ISO
from bulkdeploy.provisioning.kinds.virtual_machines.detach_iso import DETACH_ISO
from bulkdeploy.scheduling.virtual_machine_isos import OF_VM, eject_iso, insert_iso
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.device_changes import is_changed_now
from bulkdeploy.services.virtual_machines.virtual_machine_changes import shown, vm_reference
from bulkdeploy.services.virtual_machines.virtual_machines import submit
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row


def attach_iso(
    connection: Connection, system: System, caller: Caller, iso: EntityRef, vm: EntityRef, *, forced: bool
) -> JobTicket:
    """Attach an ISO to a VM; the job's result is the VM. If ``forced`` is true, an attached ISO is replaced.

    Raises:
        PermissionDenied: the caller may not access the VM, or its owner may not use the ISO.
        InvalidParameter: the VM's state does not allow the operation, its drive is not empty, its zone does not
            have the ISO, it has snapshots, or its hypervisor does not support drives.
    """
    change = partial(insert_iso, connection, vm.id, iso, forced=forced)
    params = {"iso_id": iso.id, "iso_uuid": str(iso.uuid), "iso_name": iso.name, "forced": forced}
    return _change(connection, system, caller, vm, ATTACH_ISO, params, change)


def detach_iso(connection: Connection, system: System, caller: Caller, vm: EntityRef) -> JobTicket:
    """Detach the ISO from a VM; the job's result is the VM.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM's state does not allow the operation, its drive is empty, or it has snapshots.
    """
    return _change(connection, system, caller, vm, DETACH_ISO, {}, partial(eject_iso, connection, vm.id))


def _change(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    kind: JobKind,
    params: Mapping[str, Any],
    change: Callable[[], object],
) -> JobTicket:
    seen = read_vm_row(connection, vm.id)
    owner = require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
    if kind.ability is not None:
        require_ability(system.drivers, seen.hypervisor, kind.ability, OF_VM, str(vm.uuid))

    def change_row() -> Row[Any]:
        row = lock_vm(connection, vm.id)
        change()
        return row

    if not is_changed_now(connection, kind, vm, seen.account_id, change_row):
        return submit(connection, system, caller, vm, kind, params, parameter=OF_VM)
    record_event(connection, caller, kind.event_type, f"{kind.verb} Vm {seen.name}", vm_reference(vm), owner)
    cmd = kind.cmd(is_root_admin=caller.is_root_admin)
    return done_with_object(connection, caller, cmd, "virtualmachine", shown(connection, vm), vm_reference(vm))

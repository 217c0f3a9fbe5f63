"""The unmanageVirtualMachine command: deletes a VM's rows. The guest keeps running and can be imported again.

The guest is recorded as unmanaged on purpose: its addresses are not assigned to other VMs, and the audit does not
report it. Its claims are released, as in CloudStack.
"""

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.details import DescribedGuests
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots_of_volumes
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.jobs.done_jobs import done_with_success
from bulkdeploy.services.virtual_machines.virtual_machine_changes import Change, changing, vm_reference
from bulkdeploy.store.ledger.release import release_vms
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.virtual_machines import unmanaged_instances as store
from bulkdeploy.store.virtual_machines.virtual_machine_changes import iso_of

COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.vm.UnmanageVMInstanceCmd"
UNMANAGE = Change(EventType.VM_UNMANAGE, "unmanage", frozenset({VmState.RUNNING}), spoils_snapshots=True)
"""A stopped VM has no guest that could be imported again, only volumes."""


def unmanage_vm(connection: Connection, caller: Caller, drivers: Drivers, vm: EntityRef) -> JobTicket:
    """Delete the rows of a running VM with its NICs and volumes, while the guest keeps running unmanaged.

    Afterwards the deleted row has another id. So the guest can be imported again under its id, and no late request
    for the deleted VM affects the guest.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM does not run, a job works on the VM, the VM or one of its volumes has snapshots, an
            ISO is in its drive, or its hypervisor does not report the data that a later import needs.
        TransactionConflict: the VM changed concurrently; the whole transaction must be repeated.
    """
    take_lock(connection, Lock.UNMANAGED)
    iso = iso_of(connection, vm.id)
    store.record_released_guest(connection, vm.id)
    release_vms(connection, [vm.id])
    with changing(connection, caller, vm, UNMANAGE) as (row, _):
        check_no_snapshots_of_volumes(connection, vm.id, "id", vm.uuid)
        require_ability(drivers, row.hypervisor, DescribedGuests, "id", str(vm.uuid))
        if iso is not None:
            rule = f"ISO {iso.name} is in its drive; detachIso takes it out"
            raise InvalidParameter("id", str(vm.uuid), rule)
        store.remove_rows(connection, vm.id)
    return done_with_success(connection, caller, COMMAND_CLASS, vm_reference(vm))
